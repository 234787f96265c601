"""Whether Θ covers what it claims: simulated cohorts through the calibrator's own code."""
