"""What is read from the calibrator's database, which is never written."""
