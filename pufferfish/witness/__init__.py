"""Witnesses of a loss: outputs with a large log-likelihood ratio, which bound from below what can be inferred."""
