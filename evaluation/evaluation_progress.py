"""How a long evaluation says where it is: a bar on a terminal, lines elsewhere. Both on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

BEAT = 5.0
"""Seconds between lines, at least."""


class Watcher(Protocol):
    """Who is told."""

    def begin(self, section: str) -> None:
        """A section begins."""
        ...

    def progress(self, share: float, doing: str) -> None:
        """So much of it is done, and this comes now."""
        ...

    def end(self, section: str, outcome: str) -> None:
        """It has ended so."""
        ...


@contextmanager
def watching(sections: int) -> Iterator[Watcher]:
    """Somebody who watches so many sections."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[doing]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield Bars(bars, sections)


class Lines:
    """A line when a section begins, ends, and now and then in between."""

    def __init__(self) -> None:
        self._section, self._said = "", 0.0

    def begin(self, section: str) -> None:
        """Say so."""
        self._section, self._said = section, time.monotonic()
        self._print("begins")

    def progress(self, share: float, doing: str) -> None:
        """Say so, if the last line is old."""
        if time.monotonic() - self._said >= BEAT:
            self._said = time.monotonic()
            self._print(f"{share:.0%} {doing}".strip())

    def end(self, section: str, outcome: str) -> None:
        """Say so."""
        self._print(outcome)

    def _print(self, words: str) -> None:
        print(f"evaluate: {self._section}: {words}", file=sys.stderr, flush=True)


class Bars:
    """A bar for the section at work, below one for all of them."""

    def __init__(self, bars: Progress, sections: int) -> None:
        self._bars = bars
        self._all = bars.add_task("all sections", total=sections, doing="")
        self._one = bars.add_task("", total=1.0, doing="", visible=False)

    def begin(self, section: str) -> None:
        """A new bar."""
        self._bars.reset(self._one, description=section, total=1.0, doing="", visible=True)

    def progress(self, share: float, doing: str) -> None:
        """Move it."""
        self._bars.update(self._one, completed=share, doing=doing)

    def end(self, section: str, outcome: str) -> None:
        """Put what came of it above the bars."""
        self._bars.update(self._one, completed=1.0)
        self._bars.advance(self._all)
        self._bars.console.print(f"{section}: {outcome}")
