"""A value becomes one of the policy's states, or is refused. Refused values are counted, never shown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import inf
from typing import Protocol

from hushmq.agent.sources.resample import Value
from hushmq.broker.contract.messages import Bins, Labels, StreamPolicy, Threshold


class Discretiser(Protocol):
    """Turns the values of consecutive ticks into states; None where there is no value or it was refused."""

    refused: int

    def states(self, values: Sequence[Value | None]) -> list[int | None]:
        """The states of the values, in order."""


class BinsDiscretiser:
    """State n from edge n on; within the hysteresis of the edges around the present bin the state stays.

    At first, and after a gap, there is no state to stay in: the edges themselves decide. A threshold is one edge.
    """

    def __init__(self, edges: Sequence[float], hysteresis: float) -> None:
        self.refused = 0
        self._edges = tuple(edges)
        # Bin n is left at or above _up[n] and below _down[n].
        self._up = (*(edge + hysteresis for edge in edges), inf)
        self._down = (-inf, *(edge - hysteresis for edge in edges))
        self._state: int | None = None

    def states(self, values: Sequence[Value | None]) -> list[int | None]:
        found: list[int | None] = []
        state, up, down = self._state, self._up, self._down
        for value in values:
            if value is None:
                state = None
            elif isinstance(value, str) or not -inf < value < inf:
                self.refused += 1
                state = None
            elif state is None or value >= up[state] or value < down[state]:
                state = bisect_right(self._edges, value)
            found.append(state)
        self._state = state
        return found


class LabelsDiscretiser:
    """Labels, and whole numbers and truth values as JSON writes them, looked up among the states' names."""

    def __init__(self, states: Sequence[str], aliases: Mapping[str, str]) -> None:
        self.refused = 0
        self._states = {name: number for number, name in enumerate(states)}
        self._states |= {alias: self._states[name] for alias, name in aliases.items()}

    def states(self, values: Sequence[Value | None]) -> list[int | None]:
        found = [None if value is None else self._states.get(_label(value)) for value in values]
        self.refused += sum(
            state is None and value is not None for state, value in zip(found, values, strict=True)
        )
        return found


def _label(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def discretiser(policy: StreamPolicy) -> Discretiser:
    """The discretiser that a policy asks for."""
    match policy.discretiser:
        case Threshold(at=at, hysteresis=hysteresis):
            return BinsDiscretiser((at,), hysteresis)
        case Bins(edges=edges, hysteresis=hysteresis):
            return BinsDiscretiser(edges, hysteresis)
        case Labels(aliases=aliases):
            return LabelsDiscretiser(policy.states, aliases)
