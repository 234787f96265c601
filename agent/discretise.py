"""A value becomes one of the policy's states, or is refused. Refused values are counted, never shown."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Protocol

from agent.resample import Value
from broker.messages import Threshold


class Discretiser(Protocol):
    """Turns the values of consecutive ticks into states; None where there is no value or it was refused."""

    refused: int

    def states(self, values: Sequence[Value | None]) -> list[int | None]:
        """The states of the values, in order."""


class ThresholdDiscretiser:
    """State 1 at or above the threshold, 0 below; within the hysteresis of it the state stays what it was.

    At first, and after a gap, there is no state to stay in: the threshold itself decides.
    """

    def __init__(self, setting: Threshold) -> None:
        self.refused = 0
        self._at = setting.at
        self._up, self._down = setting.at + setting.hysteresis, setting.at - setting.hysteresis
        self._state: int | None = None

    def states(self, values: Sequence[Value | None]) -> list[int | None]:
        found: list[int | None] = []
        state, at, up, down = self._state, self._at, self._up, self._down
        for value in values:
            if value is None:
                state = None
            elif isinstance(value, str) or not isfinite(value):
                self.refused += 1
                state = None
            elif state is None:
                state = int(value >= at)
            elif value >= up:
                state = 1
            elif value < down:
                state = 0
            found.append(state)
        self._state = state
        return found


def discretiser(setting: Threshold) -> Discretiser:
    """The discretiser that a policy asks for."""
    return ThresholdDiscretiser(setting)
