"""Θ from charged statistics: sufficient statistics, fit, confidence regions, misfit."""
