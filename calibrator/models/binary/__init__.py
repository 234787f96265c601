"""The numbers of the binary chain model: statistics, fit, confidence regions, misfit, histogram."""
