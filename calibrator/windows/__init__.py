"""Closing windows: count, charge, draw, release."""
