"""Sets of ticks as disjoint inclusive runs: those that a device holds, has dropped, or has had counted.

A function of ticks, such as the tilt τ(t), is no set: pufferfish/timeline/tilt_runs.py sums tilts per run, and
calibrator/ledger/public_account.py holds the noises behind each run beside its tilt.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

Run = tuple[int, int]
"""The ticks first … last, both included."""


class TickRuns:
    """A mutable set of ticks, held as the fewest runs: sorted, disjoint, never adjacent.

    Iteration and `len` are over runs. Finding the place of a change takes O(log n); appending after the last run, the
    usual case, takes O(1).
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in runs:
            self.add(first, last)

    def __iter__(self) -> Iterator[Run]:
        return iter(list(zip(self._firsts, self._lasts, strict=True)))

    def __len__(self) -> int:
        """The number of runs."""
        return len(self._firsts)

    @property
    def last(self) -> int | None:
        """The last tick; None in an empty set."""
        return self._lasts[-1] if self._lasts else None

    def add(self, first: int, last: int) -> None:
        """Add the ticks first … last."""
        if first > last:
            raise ValueError(f"the run {first} … {last} is empty")
        if not self._lasts or first > self._lasts[-1] + 1:
            self._firsts.append(first)
            self._lasts.append(last)
            return
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def remove(self, first: int, last: int) -> int:
        """Remove the ticks first … last and return how many of them were in the set."""
        low, high = self._overlapping(first, last)
        if low >= high:
            return 0
        begin, end = self._firsts[low], self._lasts[high - 1]
        removed = sum(self._lasts[low:high]) - sum(self._firsts[low:high]) + high - low
        kept = [(begin, first - 1)] if begin < first else []
        kept += [(last + 1, end)] if end > last else []
        self._firsts[low:high] = [run[0] for run in kept]
        self._lasts[low:high] = [run[1] for run in kept]
        return removed - sum(run[1] - run[0] + 1 for run in kept)

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any of the ticks first … last is in the set."""
        low, high = self._overlapping(first, last)
        return low < high

    def missing(self, first: int, last: int) -> list[Run]:
        """Return the ticks among first … last that are not in the set, as runs."""
        low, high = self._overlapping(first, last)
        if low >= high:
            return [(first, last)] if first <= last else []
        starts = [first, *(end + 1 for end in self._lasts[low:high])]
        ends = [*(begin - 1 for begin in self._firsts[low:high]), last]
        return [run for run in zip(starts, ends, strict=True) if run[0] <= run[1]]

    def keep_newest(self, runs: int) -> None:
        """Remove all runs except the last `runs`."""
        if len(self) > runs:
            del self._firsts[: len(self) - runs]
            del self._lasts[: len(self._lasts) - runs]

    def _overlapping(self, first: int, last: int) -> tuple[int, int]:
        """Return (low, high): the runs low … high − 1 contain some of the ticks first … last; none if low ≥ high."""
        return (
            (bisect_left(self._lasts, first), bisect_right(self._firsts, last)) if first <= last else (0, 0)
        )
