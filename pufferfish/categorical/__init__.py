"""Categorical Θ, the k-state chains within entrywise intervals: emission matrices, certified losses, timelines."""
