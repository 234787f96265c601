"""Streams of which only every m-th tick is published."""
