"""Reads a recording and fits Θ to it, on this machine: nothing of it leaves.

A CSV file, one row for each instant, at equal distances. A first-order chain is fitted to every m-th row: the bounds
of a change of state are Clopper's and Pearson's at 95%, for as many draws as there are steps of that stride.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushmq.broker.contract.policy_message import Assumption
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import (
    BinaryThetaMessage,
    CategoricalThetaMessage,
    Interval,
    ThetaMessage,
    theta_message,
)
from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound, upper_confidence_bound

LEAST_ROWS = 100
MOST_STATES = 8
ERROR = 0.025
"""Of each bound."""
LEAST = 1e-6


@dataclass(frozen=True, slots=True)
class Recording:
    """The states of a recording, by number, and their names."""

    names: tuple[str, ...]
    states: Sequence[int]

    def theta(self, stride: int, factor: float) -> ThetaMessage:
        """Return the Θ of every `stride`-th row: 95% bounds of each change of state, wider by a factor both ways."""
        k = len(self.names)
        counts = Counter(zip(self.states, self.states[stride:], strict=False))
        low = [[0.0] * k for _ in range(k)]
        high = [[0.0] * k for _ in range(k)]
        for x in range(k):
            draws = sum(counts[x, y] for y in range(k)) // stride
            if draws < 1:
                raise Problem(
                    f"--recording: too few rows to see what follows {self.names[x]!r} {stride} rows later"
                )
            for y in (y for y in range(k) if y != x):
                seen = min(draws, round(counts[x, y] / stride))
                low[x][y] = _digits(max(LEAST, lower_confidence_bound(seen, draws, ERROR) / factor))
                high[x][y] = _digits(min(1 - LEAST, upper_confidence_bound(seen, draws, ERROR) * factor))
            low[x][x], high[x][x] = max(0.0, 1 - sum(high[x])), 1 - sum(low[x])
        if k == 2:
            q, r = (Interval(low=low[x][1 - x], high=high[x][1 - x]) for x in (0, 1))
            return BinaryThetaMessage(q=q, r=r)
        return CategoricalThetaMessage(low=_matrix(low), high=_matrix(high))

    def assumption(self, stride: int, *, start: float, floor: float) -> Assumption:
        """Return Θ before any evidence of a site, and the Θ that is never narrowed."""
        return Assumption(start=self.theta(stride, start), floor=self.theta(stride, floor))

    def dwell(self) -> list[float]:
        """Return how many rows each state lasts on average."""
        found = []
        for x in range(len(self.names)):
            begun = sum(
                1 for t, state in enumerate(self.states) if state == x and (t == 0 or self.states[t - 1] != x)
            )
            found.append(self.states.count(x) / begun)
        return found


def hull_of(assumptions: Sequence[Assumption]) -> Assumption:
    """Return what contains all of them: every chain that one of several recordings may have."""
    return Assumption(
        start=_hull([one.start for one in assumptions]), floor=_hull([one.floor for one in assumptions])
    )


def _hull(thetas: Sequence[ThetaMessage]) -> ThetaMessage:
    found: Any = thetas[0].chains  # all of them are of one class
    for one in thetas[1:]:
        found = found.hull(one.chains)
    message: ThetaMessage = theta_message(found)
    return message


def _digits(value: float) -> float:
    return min(1 - LEAST, float(f"{value:.4g}"))


def _matrix(rows: list[list[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(value, 8) for value in row) for row in rows)


def read_recording(
    path: Path, column: str | None, names: Sequence[str] | None, threshold: float | None
) -> Recording:
    """Return a recording; raise Problem, which repeats none of its values, when it is none.

    Args:
        path: A CSV file; its first row is a header if `column` names a column, or where there is no state in it.
        column: The column of the values; by default the last one.
        names: The names of the states, in order; by default those that occur, sorted.
        threshold: Values are numbers, and from this one on the second state.
    """
    values = list(_values(path, column, numbers=threshold is not None))
    if len(values) < LEAST_ROWS:
        raise Problem(f"--recording: {path} has {len(values)} values; at least {LEAST_ROWS} are needed")
    if threshold is not None:
        names = names or ("low", "high")
        if len(names) != 2:
            raise Problem("--states: a threshold separates two states: name two")
        return _checked(path, names, [int(float(value) >= threshold) for value in values])
    names = names or sorted(set(values))
    if not 2 <= len(names) <= MOST_STATES:
        raise Problem(
            f"--recording: {path} has {len(names)} different values; 2 to {MOST_STATES} states can be planned: "
            "give --threshold for numbers"
        )
    number = {name: index for index, name in enumerate(names)}
    for row, value in enumerate(values, 1):
        if value not in number:
            raise Problem(f"--recording: {path}: value {row} is none of {', '.join(names)}")
    return _checked(path, names, [number[value] for value in values])


def _checked(path: Path, names: Sequence[str], states: list[int]) -> Recording:
    missing = [name for index, name in enumerate(names) if index not in set(states)]
    if missing:
        raise Problem(f"--recording: {path}: {', '.join(missing)} never occurs: nothing can be fitted to it")
    return Recording(tuple(names), states)


def _values(path: Path, column: str | None, *, numbers: bool) -> Iterator[str]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if row]
    except OSError as error:
        raise Problem(f"--recording: {path}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise Problem(f"--recording: {path} is no CSV file in UTF-8") from None
    place = -1
    if column is not None:
        if not rows or column not in rows[0]:
            raise Problem(f"--column: {path} has no column {column!r} in its first row")
        place = rows[0].index(column)
        rows = rows[1:]
    for number, row in enumerate(rows):
        value = row[place].strip() if -len(row) <= place < len(row) else ""
        if numbers and not _is_number(value):
            if number == 0 and column is None:
                continue  # a header
            raise Problem(f"--recording: {path}: row {number + 1} has no number")
        yield value


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False
