"""A progress bar for long computations."""

from __future__ import annotations

import sys
from collections.abc import Callable

Progress = Callable[[float], None]
"""A callback that receives the share done, from 0 to 1."""

WIDTH = 30


def bar(name: str) -> Progress:
    """A progress bar on a terminal, removed at the end; no output elsewhere."""
    if not sys.stderr.isatty():
        return lambda share: None

    def show(share: float) -> None:
        filled = round(WIDTH * share)
        end = "\r\x1b[K" if share >= 1.0 else ""
        drawn = f"\r{name} [{'█' * filled}{' ' * (WIDTH - filled)}] {share:4.0%}{end}"
        print(drawn, end="", file=sys.stderr, flush=True)

    return show
