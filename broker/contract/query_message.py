"""What a policy asks of a window beside its histogram: one pydantic model for each kind of query.

All but `transitions` follow from numbers that are released anyway, and cost nothing (docs/queries.md). `transitions`
takes a share of its window's tilt, so that the window costs what it costs without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from hushmq.broker.contract.message_base import Level, Message, Number

MOST_COUNTED_STATES = 8
"""With more states transitions are not counted: noise on k² numbers would hide them."""
LEAST_VALUE, LARGEST_VALUE = 1e-12, 1e12
"""Sizes of values other than 0: with them every mean and its interval is a number that a release can carry."""
MOST_QUERIES = 8
"""Queries about one window at most, so that its releases stay messages of a moderate size."""
LONGEST_SLIDE = 256
"""Windows that a sliding one spans at most."""


Value = Annotated[Number, Field(ge=-LARGEST_VALUE, le=LARGEST_VALUE)]


class MeanQuery(Message):
    """The mean over a window of a value that stands for each state, such as the middle of its bin. Costs nothing."""

    kind: Literal["mean"]
    window: Level
    """The window whose releases carry the answer."""
    values: Annotated[tuple[Value, ...], Field(min_length=2, max_length=256)]
    """What each state stands for, in the order of `states`."""


class QuantileQuery(Message):
    """The state below which, in the order of `states`, a share of a window's ticks lies. Costs nothing."""

    kind: Literal["quantile"]
    window: Level
    """The window whose releases carry the answer."""
    at: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The share: 0.5 for the median."""


class TopQuery(Message):
    """The most frequent states of a window, in order. Costs nothing."""

    kind: Literal["top"]
    window: Level
    """The window whose releases carry the answer."""
    states: Annotated[int, Field(ge=1, le=255)]
    """How many."""


class DwellQuery(Message):
    """How long each state lasts on average, by the Θ that a release names. Costs nothing."""

    kind: Literal["dwell"]
    window: Level
    """The window whose releases carry the answer."""


class SlidingQuery(Message):
    """The frequencies of the last windows together, with each release: a sliding window. Costs nothing."""

    kind: Literal["sliding"]
    window: Level
    """The tumbling window that it is made of."""
    windows: Annotated[int, Field(ge=2, le=LONGEST_SLIDE)]
    """How many of them it spans."""


class TransitionsQuery(Message):
    """How often each state follows each state within a window. It takes a share of the window's tilt."""

    kind: Literal["transitions"]
    window: Level
    """The window whose releases carry the answer."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The share of the window's tilt that pays for it; the histogram has what is left."""


AnyQuery = MeanQuery | QuantileQuery | TopQuery | DwellQuery | SlidingQuery | TransitionsQuery
Query = Annotated[AnyQuery, Field(discriminator="kind")]


def of_window(queries: Mapping[str, AnyQuery], window: str) -> dict[str, AnyQuery]:
    """The queries about one window, in the order of their names."""
    return {name: queries[name] for name in sorted(queries) if queries[name].window == window}


def transition_share(queries: Mapping[str, AnyQuery], window: str) -> float:
    """The share of a window's tilt that its histogram leaves to queries."""
    found = of_window(queries, window).values()
    return sum(one.share for one in found if isinstance(one, TransitionsQuery))


def query_error(
    queries: Mapping[str, AnyQuery], *, windows: Mapping[str, int], states: int, regimes: bool
) -> str | None:
    """Why these queries do not fit a stream with these windows, in strides; None if they do."""
    for name, one in queries.items():
        reason = _error(one, windows, states, regimes=regimes)
        if reason is not None:
            return f"queries.{name}.{reason}"
    for window in windows:
        asked = len(of_window(queries, window))
        if asked > MOST_QUERIES:
            return f"queries: {asked} are about window {window}, at most {MOST_QUERIES} may be"
        taken = transition_share(queries, window)
        if taken >= 1:
            return f"queries: those of window {window} take {taken:g} of its tilt, and leave nothing to its histogram"
    return None


def _error(one: AnyQuery, windows: Mapping[str, int], states: int, *, regimes: bool) -> str | None:
    if one.window not in windows:
        return f"window: {one.window} is none of windows"
    match one:
        case MeanQuery() if len(one.values) != states:
            return f"values: it has {len(one.values)}, one is needed for each of {states} states"
        case MeanQuery() if any(0 < abs(value) < LEAST_VALUE for value in one.values):
            return f"values: each must be 0 or at least {LEAST_VALUE:g} in size"
        case TopQuery() if one.states >= states:
            return f"states: at most {states - 1} of {states} states"
        case DwellQuery() if regimes:
            return "kind: in a chain with hidden regimes a state has no one dwell time"
        case TransitionsQuery() if states > MOST_COUNTED_STATES:
            return f"kind: transitions are counted between at most {MOST_COUNTED_STATES} states"
        case TransitionsQuery() if windows[one.window] < 2:
            return "window: a window of one published tick has no transitions"
    return None
