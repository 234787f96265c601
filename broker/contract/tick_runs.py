"""Sets of ticks as disjoint inclusive runs: what waits in the outbox, and what was dropped from it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Runs:
    """A set of ticks, kept as few runs as possible."""

    def __init__(self, runs: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self.ticks = 0
        for first, last in runs:
            self.add(first, last)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(list(zip(self._firsts, self._lasts, strict=True)))

    def __len__(self) -> int:
        """How many runs there are."""
        return len(self._firsts)

    def add(self, first: int, last: int) -> None:
        """Add the ticks first … last."""
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._replace(low, high, [(first, last)])

    def remove(self, first: int, last: int) -> int:
        """Remove the ticks first … last; how many of them there were."""
        before = self.ticks
        low = bisect_left(self._lasts, first)
        high = bisect_right(self._firsts, last)
        kept: list[tuple[int, int]] = []
        if low < high:
            kept += [(self._firsts[low], first - 1)] if self._firsts[low] < first else []
            kept += [(last + 1, self._lasts[high - 1])] if self._lasts[high - 1] > last else []
            self._replace(low, high, kept)
        return before - self.ticks

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any of the ticks first … last is in the set."""
        return bisect_left(self._lasts, first) < bisect_right(self._firsts, last)

    def keep_newest(self, runs: int) -> None:
        """Let go of all but the last so many runs."""
        if len(self) > runs:
            self._replace(0, len(self) - runs, [])

    def _replace(self, low: int, high: int, runs: list[tuple[int, int]]) -> None:
        gone = zip(self._firsts[low:high], self._lasts[low:high], strict=True)
        self.ticks -= sum(last - first + 1 for first, last in gone)
        self.ticks += sum(last - first + 1 for first, last in runs)
        self._firsts[low:high] = [first for first, _ in runs]
        self._lasts[low:high] = [last for _, last in runs]
