"""Chains with hidden regimes: a fast binary chain inside slow ones, and the price of its tilts."""
