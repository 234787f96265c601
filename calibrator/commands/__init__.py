"""Command lines of the calibrator and of its ledger."""
