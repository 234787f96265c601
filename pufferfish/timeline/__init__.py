"""The entries of a history and its runs of equal tilt, shared by the timelines of all chain models."""
