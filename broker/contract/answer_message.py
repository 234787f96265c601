"""The answers to a policy's queries, as a release carries them: one pydantic model for each kind."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hushmq.broker.contract.message_base import (
    Magnitude,
    Message,
    NoiseScale,
    NoisyCount,
    Number,
    Positive,
    Tick,
)

Interval = tuple[Number, Number]
Table = Annotated[tuple[tuple[Number, ...], ...], Field(min_length=2)]


class MeanAnswer(Message):
    """The mean of the states' values, unbiased, with a 95% confidence interval."""

    kind: Literal["mean"]
    value: Number
    standard_error: Magnitude
    interval: Interval


class QuantileAnswer(Message):
    """The state that holds the quantile, and the states between which it lies with 95% confidence."""

    kind: Literal["quantile"]
    at: Annotated[float, Field(gt=0, lt=1)]
    state: str
    interval: tuple[str, str]
    edges: tuple[Number | None, Number | None] | None = None
    """The edges of that interval's bins; None where it is open. None where states are no bins."""


class TopAnswer(Message):
    """The most frequent states, in order."""

    kind: Literal["top"]
    states: Annotated[tuple[str, ...], Field(min_length=1)]
    certain: bool
    """Whether no state that is left out has an interval that reaches those of the states named."""


class DwellAnswer(Message):
    """For each state the interval of its average dwell time in seconds, for every chain in Θ."""

    kind: Literal["dwell"]
    seconds: Annotated[tuple[tuple[Magnitude, Magnitude | None], ...], Field(min_length=2)]
    """None where Θ has no upper bound."""


class SlidingAnswer(Message):
    """The frequencies of the last windows together."""

    kind: Literal["sliding"]
    first: Tick
    """The first tick, as in `first` of releases."""
    windows: Positive
    """How many windows it spans: fewer than asked for where one of them was not released."""
    frequencies: Annotated[tuple[Number, ...], Field(min_length=2)]
    standard_errors: tuple[Magnitude, ...]
    intervals: tuple[Interval, ...]


class TransitionsAnswer(Message):
    """How often each state was followed by each: rows are the states before, columns those after."""

    kind: Literal["transitions"]
    pairs: Positive
    """Consecutive states that were counted."""
    counts: Annotated[tuple[tuple[NoisyCount, ...], ...], Field(min_length=2)]
    """Noisy counts of the sanitized pairs."""
    shares: Table
    """The share of each pair among all true ones, unbiased."""
    standard_errors: tuple[tuple[Magnitude, ...], ...]
    half_widths: tuple[tuple[Magnitude, ...], ...]
    """A share is within so much of the true one with 95% confidence."""
    scale: NoiseScale
    """Of the noise on each count. A state is in two pairs, each of which moves two counts by one: it costs 4/scale."""


AnyAnswer = MeanAnswer | QuantileAnswer | TopAnswer | DwellAnswer | SlidingAnswer | TransitionsAnswer
Answer = Annotated[AnyAnswer, Field(discriminator="kind")]
