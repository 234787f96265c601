"""Map a value to one of the policy's states. A value that matches none is refused: counted, and never logged.

A tick without a value, or with a refused one, has the stand-in of the stream's policy. So every tick has a state, and
whether one is published says nothing about the value (docs/theory-world.md, Theorem 10).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import inf
from typing import Protocol

from hushmq.agent.sources.resample import Value
from hushmq.broker.contract.policy_message import Bins, Labels, StreamPolicy, Threshold


class Discretiser(Protocol):
    """Turns the values of consecutive ticks into states; the stand-in where there is no value or it was refused."""

    refused: int

    def states(self, values: Sequence[Value | None]) -> list[int]:
        """The states of the values, in order."""


class BinsDiscretiser:
    """State n from edge n on; within the hysteresis of an edge of the current bin the state is kept.

    At the start and after the stand-in there is no state to keep, and the edges alone decide. A threshold is one edge.
    """

    def __init__(self, edges: Sequence[float], hysteresis: float, stand_in: int) -> None:
        self.refused = 0
        self._stand_in = stand_in
        self._edges = tuple(edges)
        # The state leaves bin n at or above _up[n], or below _down[n].
        self._up = (*(edge + hysteresis for edge in edges), inf)
        self._down = (-inf, *(edge - hysteresis for edge in edges))
        self._state: int | None = None

    def states(self, values: Sequence[Value | None]) -> list[int]:
        found: list[int] = []
        state, up, down, stand_in = self._state, self._up, self._down, self._stand_in
        for value in values:
            if value is None:
                state = None
            elif isinstance(value, str) or not -inf < value < inf:
                self.refused += 1
                state = None
            elif state is None or value >= up[state] or value < down[state]:
                state = bisect_right(self._edges, value)
            found.append(stand_in if state is None else state)
        self._state = state
        return found


class LabelsDiscretiser:
    """Labels, and whole numbers and Booleans as JSON writes them, looked up in the names of the states."""

    def __init__(self, states: Sequence[str], aliases: Mapping[str, str], stand_in: int) -> None:
        self.refused = 0
        self._stand_in = stand_in
        self._states = {name: number for number, name in enumerate(states)}
        self._states |= {alias: self._states[name] for alias, name in aliases.items()}

    def states(self, values: Sequence[Value | None]) -> list[int]:
        labels = [None if value is None else _label(value) for value in values]
        self.refused += sum(label is not None and label not in self._states for label in labels)
        return [
            self._stand_in if label is None else self._states.get(label, self._stand_in) for label in labels
        ]


def _label(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def discretiser(policy: StreamPolicy) -> Discretiser:
    """The discretiser of a stream's policy."""
    match policy.discretiser:
        case Threshold(at=at, hysteresis=hysteresis):
            return BinsDiscretiser((at,), hysteresis, policy.stand_in_state)
        case Bins(edges=edges, hysteresis=hysteresis):
            return BinsDiscretiser(edges, hysteresis, policy.stand_in_state)
        case Labels(aliases=aliases):
            return LabelsDiscretiser(policy.states, aliases, policy.stand_in_state)
