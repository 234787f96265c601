"""Confidence intervals and weights for what is estimated from noisy counts."""
