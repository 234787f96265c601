"""A seeded Markov chain, for demonstrations and tests that need to know the true states. Never used for noise."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random


class SimulatedChain:
    """A stationary chain: the state at a tick depends on (transition, seed, start_tick, tick) alone.

    Ticks in order cost one draw each; an earlier tick restarts the chain at `start_tick`.
    """

    def __init__(self, transition: Sequence[Sequence[float]], seed: int, start_tick: int) -> None:
        self._seed, self.start_tick = seed, start_tick
        self._start = _thresholds(stationary(transition))
        self._moves = [_thresholds(row) for row in transition]
        self._restart()

    @classmethod
    def binary(cls, q: float, r: float, seed: int, start_tick: int) -> SimulatedChain:
        """Two states, with P(0→1)=q and P(1→0)=r."""
        return cls(((1 - q, q), (r, 1 - r)), seed, start_tick)

    def _restart(self) -> None:
        self._random = Random(self._seed).random  # noqa: S311  # simulated data, not noise
        self._tick = self.start_tick
        self._state = bisect_right(self._start, self._random())

    def state(self, tick: int) -> int:
        """The state at a tick, ValueError before `start_tick`."""
        return self.states(tick, 1)[0]

    def states(self, first: int, count: int) -> bytes:
        """The states at `count` ticks from `first` on."""
        if first < self.start_tick:
            raise ValueError(f"the chain starts at tick {self.start_tick}")
        if first < self._tick:
            self._restart()
        moves, draw, state = self._moves, self._random, self._state
        for _ in range(first - self._tick):
            state = bisect_right(moves[state], draw())
        found = bytearray((state,)) if count else bytearray()
        for _ in range(count - 1):
            state = bisect_right(moves[state], draw())
            found.append(state)
        self._tick, self._state = max(first, first + count - 1), state
        return bytes(found)


def _thresholds(row: Sequence[float]) -> list[float]:
    """Cumulative probabilities: a uniform draw selects the state whose number is the count of thresholds below it."""
    return list(accumulate(row))[:-1]


def stationary(transition: Sequence[Sequence[float]]) -> list[float]:
    """The stationary distribution, by the algorithm of Grassmann, Taksar and Heyman, which subtracts nothing.

    Raises ValueError if some state cannot reach the ones before it: the distribution may then not be unique.
    """
    k = len(transition)
    rows = [list(row) for row in transition]
    for last in range(k - 1, 0, -1):
        away = sum(rows[last][:last])
        if away <= 0:
            raise ValueError(f"state {last} must lead to a state before it, directly or through later ones")
        for x in range(last):
            rows[x][last] /= away
            for u in range(last):
                rows[x][u] += rows[x][last] * rows[last][u]
    weights = [1.0]
    for x in range(1, k):
        weights.append(sum(weight * rows[u][x] for u, weight in enumerate(weights)))
    total = sum(weights)
    return [weight / total for weight in weights]
