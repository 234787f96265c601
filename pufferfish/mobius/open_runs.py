"""The runs of a timeline that may have its largest loss, by an upper bound on each, largest first."""

from __future__ import annotations

import math
from array import array
from typing import Any

from hushmq.pufferfish.optional_numpy import numpy_if_installed

_FEW = 32
"""Fewer runs are quicker one by one."""


class OpenRuns:
    """The runs whose losses may exceed the largest one that was found."""

    def __init__(
        self,
        taus: array[float],
        shapes: array[int],
        before: array[float],
        after: array[float],
        ceiling: float,
        loss: float,
    ) -> None:
        """The tilt of each run, its shape, and what is said before it and from it on, with one value more.

        Along a run each side moves monotonically from one of its values to the next.
        """
        self._shapes, self._before, self._after = shapes, before, after
        self._searched: dict[int, tuple[float, float, float]] = {}
        self._np = np = numpy_if_installed() if len(taus) > _FEW else None
        self._places: Any
        self._bounds: Any
        self._at = 0
        if np is None:
            ends = zip(taus, before, before[1:], after, after[1:], strict=False)
            found = [tau + min(max(a, b) + max(c, d), ceiling) for tau, a, b, c, d in ends]
            self._places = sorted(
                (i for i, bound in enumerate(found) if bound > loss), key=lambda i: -found[i]
            )
            self._bounds = [found[i] for i in self._places]
            return
        left, right = np.frombuffer(before), np.frombuffer(after)
        both = np.maximum(left[:-1], left[1:]) + np.maximum(right[:-1], right[1:])
        bounds = np.frombuffer(taus) + np.minimum(both, ceiling)
        places = np.flatnonzero(bounds > loss)
        places = places[np.argsort(-bounds[places], kind="stable")]
        self._places, self._bounds = places, bounds[places]
        self._alike = np.bincount(np.frombuffer(shapes, dtype=np.int64)[places])

    def next(self) -> tuple[float, int, float] | None:
        """The run with the next bound: the bound, the run, and what earlier searches say of it; None after the last."""
        if self._at == len(self._places):
            return None
        bound, i = float(self._bounds[self._at]), int(self._places[self._at])
        self._at += 1
        # A side that says more before a run says no more than that after any of its ticks.
        left, right, there = self._searched.get(self._shapes[i], (0.0, 0.0, math.inf))
        most = there + max(self._before[i] - left, 0.0) + max(self._after[i + 1] - right, 0.0)
        return bound, i, most

    def searched(self, i: int, here: float, enough: float) -> float:
        """Note the largest loss of a run; the largest bound among the runs that are left out because of it.

        These are the runs of its shape that exceed it by no more than what is said before and after them: a loss up to
        `enough`.
        """
        shape, left, right = self._shapes[i], self._before[i], self._after[i + 1]
        self._searched[shape] = left, right, here
        np = self._np
        if np is None or self._alike[shape] <= _FEW:
            return 0.0
        places, bounds = self._places[self._at :], self._bounds[self._at :]
        most = here + np.maximum(np.frombuffer(self._before)[places] - left, 0.0)
        most += np.maximum(np.frombuffer(self._after)[places + 1] - right, 0.0)
        gone = (np.frombuffer(self._shapes, dtype=np.int64)[places] == shape) & (most <= enough)
        self._alike[shape] -= gone.sum()
        self._places, self._bounds, self._at = places[~gone], bounds[~gone], 0
        return float(most[gone].max(initial=0.0))
