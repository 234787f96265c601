"""Durations at the command line: `500ms`, `2s`, `10min`, `8h`, `1d`."""

from __future__ import annotations

import argparse
import re

UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
"""Seconds of each unit."""


def duration(text: str) -> float:
    """Parse a duration into seconds, for argparse."""
    found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|min|h|d)\s*", text)
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= 3650 * UNITS["d"]:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 500ms, 2s, 10min, 8h or 1d")
    return seconds


def in_words(seconds: float) -> str:
    """Return a duration in the largest unit that keeps it short."""
    unit = next((name for name in ("d", "h", "min", "s") if seconds >= UNITS[name]), "ms")
    return f"{seconds / UNITS[unit]:.3g} {unit}"
