"""Chains with hidden regimes, learned from charged statistics at short and long lags."""
