"""Two-state chains: the exact loss of an endless stream and of any history, and the noise with a given loss."""
