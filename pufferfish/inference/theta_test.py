"""Test whether a path stays within Θ, valid at every moment of its life (docs/theory-world.md, Theorem 24).

The hypothesis is what the price assumes: at every tick the probability of each next state, given everything before,
lies between the bounds of the present state's row. It is examined cell by cell, a cell being a state together with a
feature of the past (`path_features`): how often the path left the state, and for few states also where it went. The
evidence is a weighted mean over all cells, twice: since the beginning, and since the present block began, so that a
change after a long time is found soon. While the hypothesis holds, the evidence ever reaches 1/α with probability at
most α.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from hushmq.pufferfish.inference.interval_evidence import IntervalEvidence
from hushmq.pufferfish.inference.path_features import CELLS, DWELL_CELLS, LAG_CELLS, SHARE_CELLS, PathFeatures

MOST_STATES_WITH_TARGETS = 16
"""With more states only leaving a state is examined, not where it goes."""
BLOCK = 8192
"""The number of ticks of a block."""
SOONEST, LATEST = 32, 256
"""The fewest and the most ticks from one evaluation to the next: a 32nd of the ticks so far, within these."""

_WEIGHTS = {range(1): 0.4, DWELL_CELLS: 0.2, LAG_CELLS: 0.2, SHARE_CELLS: 0.2}
_OF_CELL = [weight / len(cells) for cells, weight in _WEIGHTS.items() for _ in cells]
_TARGETS = 0.2
"""The weight of where the path goes, taken from cell 0 where it is examined."""


class ThetaTest:
    """The evidence of one path against one Θ. Holds counts and the last states; its repr shows none of them."""

    def __init__(self, low: Sequence[Sequence[float]], high: Sequence[Sequence[float]]) -> None:
        self._states = len(low)
        self._targets = 2 < self._states <= MOST_STATES_WITH_TARGETS
        self._of_cell = [_OF_CELL[0] - _TARGETS * self._targets, *_OF_CELL[1:]]
        self._leaving = [_leaving(row, *bounds) for row, bounds in enumerate(zip(low, high, strict=True))]
        self._going = [
            [IntervalEvidence(*entry) for entry in zip(less, more, strict=True)]
            for less, more in zip(low, high, strict=True)
            if self._targets
        ]
        self.evidence = 0.0
        """As of the last evaluation."""
        self.ticks = 0
        """The number of ticks seen."""
        self._features = PathFeatures(self._states)
        self._last: int | None = None
        self._cells: list[int] = []
        self._due = SOONEST
        self._block, self._block_ends = 1, BLOCK
        size = self._states * CELLS * 2
        self._before = [0] * size
        self._counts = [0] * size
        """By state, cell and whether the path stayed or left: in the blocks before, and in the present block."""
        self._moves_before = [0] * (self._states**2 if self._targets else 0)
        self._moves = list(self._moves_before)
        self._changed: set[int] = set()
        self._rows = [(1.0, 1.0)] * self._states
        """By state: the evidence since the beginning, and in the present block."""

    def add(self, states: Iterable[int | None]) -> float:
        """Continue the path, None being a tick without a state; returns the largest evidence on the way."""
        largest = 0.0
        for state in states:
            self._step(state)
            if self.ticks >= self._due:
                largest = max(largest, self._evaluate())
        return largest

    def _step(self, state: int | None) -> None:
        self.ticks += 1
        if state is None:
            self._last = None
            self._features.restart()
            return
        last = self._last
        if last is not None:
            counts, start = self._counts, last * CELLS * 2 + (state != last)
            for cell in self._cells:
                counts[start + 2 * cell] += 1
            if self._targets:
                self._moves[last * self._states + state] += 1
            self._changed.add(last)
        self._last = state
        self._cells = self._features.extend(state)

    def _evaluate(self) -> float:
        """Evaluate now, and begin a new block if the present one is full; when is a matter of `ticks` alone."""
        for state in self._changed:
            self._rows[state] = self._row(state)
        self._changed.clear()
        whole, recent = (fsum(each) / self._states for each in zip(*self._rows, strict=True))
        self.evidence = 0.5 * whole + 0.5 * recent / (self._block * (self._block + 1))
        self._due = self.ticks + min(max(SOONEST, self.ticks // 32), LATEST)
        if self.ticks >= self._block_ends:
            self._begin_block()
        return self.evidence

    def _row(self, state: int) -> tuple[float, float]:
        """The evidence of the cells of one state: since the beginning, and in the present block."""
        start, leaving = state * CELLS * 2, self._leaving[state]
        whole, recent = [], []
        for cell, weight in enumerate(self._of_cell):
            at = start + 2 * cell
            stayed, left = self._counts[at], self._counts[at + 1]
            recent.append(weight * leaving.after(left, stayed))
            whole.append(weight * leaving.after(left + self._before[at + 1], stayed + self._before[at]))
        if self._targets:
            weight, start = _TARGETS / self._states, state * self._states
            moves = self._moves[start : start + self._states]
            before = self._moves_before[start : start + self._states]
            for entry, now, then in zip(self._going[state], moves, before, strict=True):
                recent.append(weight * entry.after(now, sum(moves) - now))
                whole.append(weight * entry.after(now + then, sum(moves) + sum(before) - now - then))
        return fsum(whole), fsum(recent)

    def _begin_block(self) -> None:
        self._block += 1
        self._block_ends = self.ticks + BLOCK
        for before, counts in ((self._before, self._counts), (self._moves_before, self._moves)):
            for at, count in enumerate(counts):
                before[at] += count
            counts[:] = [0] * len(counts)
        self._rows = [(whole, 1.0) for whole, _ in self._rows]


def _leaving(state: int, low: Sequence[float], high: Sequence[float]) -> IntervalEvidence:
    """The evidence against the probabilities of leaving a state that its row of Θ allows."""
    others = [other for other in range(len(low)) if other != state]
    least = max(1.0 - high[state], fsum(low[other] for other in others))
    most = min(1.0 - low[state], fsum(high[other] for other in others))
    return IntervalEvidence(min(least, most), max(least, most))
