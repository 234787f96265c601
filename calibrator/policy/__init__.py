"""The policy that is followed, and what follows from it alone: ticks, and what device-made windows cost."""
