"""Map a value to one of the policy's states, or refuse it. Refused values are counted and never logged."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import inf
from typing import Protocol

from hushmq.agent.sources.resample import Value
from hushmq.broker.contract.policy_message import Bins, Labels, StreamPolicy, Threshold


class Discretiser(Protocol):
    """Turns the values of consecutive ticks into states; None where there is no value or it was refused."""

    refused: int

    def states(self, values: Sequence[Value | None]) -> list[int | None]:
        """The states of the values, in order."""


class BinsDiscretiser:
    """State n from edge n on; within the hysteresis of an edge of the current bin the state is kept.

    At the start and after a gap there is no state to keep, and the edges alone decide. A threshold is one edge.
    """

    def __init__(self, edges: Sequence[float], hysteresis: float) -> None:
        self.refused = 0
        self._edges = tuple(edges)
        # The state leaves bin n at or above _up[n], or below _down[n].
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
    """Labels, and whole numbers and Booleans as JSON writes them, looked up in the names of the states."""

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
    """The discretiser of a stream's policy."""
    match policy.discretiser:
        case Threshold(at=at, hysteresis=hysteresis):
            return BinsDiscretiser((at,), hysteresis)
        case Bins(edges=edges, hysteresis=hysteresis):
            return BinsDiscretiser(edges, hysteresis)
        case Labels(aliases=aliases):
            return LabelsDiscretiser(policy.states, aliases)
