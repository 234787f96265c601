"""Real recordings replayed through agents, a broker and the calibrator."""
