"""The progress of an evaluation on standard error: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

BEAT = 5.0
"""The least number of seconds between two lines."""


class ProgressListener(Protocol):
    """Receives the progress."""

    def begin(self, section: str) -> None:
        """Called when a section starts."""
        ...

    def progress(self, share: float, doing: str) -> None:
        """Called with the share done and the current step."""
        ...

    def end(self, section: str, outcome: str) -> None:
        """Called when a section has ended."""
        ...


@contextmanager
def progress_listener(sections: int) -> Iterator[ProgressListener]:
    """A listener for this number of sections: bars on a terminal, otherwise lines."""
    if not sys.stderr.isatty():
        yield LineProgress()
        return
    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[doing]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        yield BarProgress(bars, sections)


class LineProgress:
    """Prints a line when a section starts and ends, and at intervals in between."""

    def __init__(self) -> None:
        self._section, self._said = "", 0.0

    def begin(self, section: str) -> None:
        """Prints a line."""
        self._section, self._said = section, time.monotonic()
        self._print("begins")

    def progress(self, share: float, doing: str) -> None:
        """Prints a line if the last one is older than `BEAT`."""
        if time.monotonic() - self._said >= BEAT:
            self._said = time.monotonic()
            self._print(f"{share:.0%} {doing}".strip())

    def end(self, section: str, outcome: str) -> None:
        """Prints a line."""
        self._print(outcome)

    def _print(self, words: str) -> None:
        print(f"evaluate: {self._section}: {words}", file=sys.stderr, flush=True)


class BarProgress:
    """A bar for all sections, and one for the section that runs."""

    def __init__(self, bars: Progress, sections: int) -> None:
        self._bars = bars
        self._all = bars.add_task("all sections", total=sections, doing="")
        self._one = bars.add_task("", total=1.0, doing="", visible=False)

    def begin(self, section: str) -> None:
        """Adds a bar for the section."""
        self._bars.reset(self._one, description=section, total=1.0, doing="", visible=True)

    def progress(self, share: float, doing: str) -> None:
        """Updates the bar of the section."""
        self._bars.update(self._one, completed=share, doing=doing)

    def end(self, section: str, outcome: str) -> None:
        """Prints the outcome above the bars."""
        self._bars.update(self._one, completed=1.0)
        self._bars.advance(self._all)
        self._bars.console.print(f"{section}: {outcome}")
