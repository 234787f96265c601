"""Markov quilts on given k-state chains: the tilted quilt, the Markov quilt mechanism, and the lower bound on noise."""
