"""A seeded two-state chain, so that a demonstration knows the truth. Never used for noise."""

from __future__ import annotations

from random import Random


class SimulatedChain:
    """A stationary chain with P(0→1)=q, P(1→0)=r: the state at a tick depends on (q, r, seed, start_tick, tick) alone.

    Ticks asked for in order cost one draw each; going back starts again at `start_tick`.
    """

    def __init__(self, q: float, r: float, seed: int, start_tick: int) -> None:
        self._q, self._r, self._seed = q, r, seed
        self.start_tick = start_tick
        self._restart()

    def _restart(self) -> None:
        self._random = Random(self._seed).random  # noqa: S311  # simulated data, not noise
        self._tick = self.start_tick
        self._state = int(self._random() * (self._q + self._r) < self._q)

    def state(self, tick: int) -> int:
        """The state at a tick, ValueError before `start_tick`."""
        return self.states(tick, 1)[0]

    def states(self, first: int, count: int) -> bytes:
        """The states at `count` ticks from `first` on."""
        if first < self.start_tick:
            raise ValueError(f"the chain starts at tick {self.start_tick}")
        if first < self._tick:
            self._restart()
        move, draw, state = (self._q, self._r), self._random, self._state
        for _ in range(first - self._tick):
            if draw() < move[state]:
                state ^= 1
        found = bytearray((state,)) if count else bytearray()
        for _ in range(count - 1):
            if draw() < move[state]:
                state ^= 1
            found.append(state)
        self._tick, self._state = max(first, first + count - 1), state
        return bytes(found)
