"""Compare what the device sees with what it is promised under: its own states with Θ, its readings with the period."""
