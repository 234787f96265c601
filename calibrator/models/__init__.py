"""What differs between streams of two states and of more."""
