"""What the calibrator publishes: retained topics, and stored releases until the broker has acknowledged them."""
