"""A bar while something takes its time."""

from __future__ import annotations

import sys
from collections.abc import Callable

Progress = Callable[[float], None]
"""Told from time to time which share is done; 1 is the end."""

WIDTH = 30


def bar(name: str) -> Progress:
    """A bar on a terminal, nothing elsewhere; it is gone when all is done."""
    if not sys.stderr.isatty():
        return lambda share: None

    def show(share: float) -> None:
        filled = round(WIDTH * share)
        end = "\r\x1b[K" if share >= 1.0 else ""
        drawn = f"\r{name} [{'█' * filled}{' ' * (WIDTH - filled)}] {share:4.0%}{end}"
        print(drawn, end="", file=sys.stderr, flush=True)

    return show
