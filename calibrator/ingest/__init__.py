"""What arrives: read, judged, counted once."""
