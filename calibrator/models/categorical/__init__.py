"""The numbers of the categorical chain model: statistics, fit, confidence regions, misfit, histogram."""
