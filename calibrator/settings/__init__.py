"""Calibrated noise settings, for the cohort and for single devices."""
