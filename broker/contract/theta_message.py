"""Θ on the wire: a class of stationary chains, `{q, r}` for two states and `{low, high}` for more."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Self, overload

from pydantic import Discriminator, Field, Tag, model_validator

from hushmq.broker.contract.message_base import MORE, TWO, Message, Probability
from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.binary.stream_loss import Box
from hushmq.pufferfish.categorical.transition_intervals import Class, Intervals

Entry = Annotated[float, Field(ge=0, le=1)]
Matrix = Annotated[tuple[tuple[Entry, ...], ...], Field(min_length=3, max_length=256)]


class Interval(Message):
    """A closed interval of a probability."""

    low: Probability
    high: Probability

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError("low must not be above high")
        return self


class BinaryTheta(Message):
    """A class of chains over two states: P(0→1) within q, P(1→0) within r."""

    q: Interval
    r: Interval

    @property
    def k(self) -> int:
        return 2

    @property
    def chains(self) -> Box:
        return Box(self.q.low, self.q.high, self.r.low, self.r.high)

    def contains(self, other: BinaryTheta | IntervalTheta) -> bool:
        return isinstance(other, BinaryTheta) and self.chains.contains(other.chains)


class Entrywise(Message):
    """Transition matrices P with low ≤ P ≤ high in every entry; row x holds P(x→y) for every y."""

    low: Matrix
    high: Matrix

    @property
    def intervals(self) -> Intervals:
        return Intervals(self.low, self.high)

    @model_validator(mode="after")
    def _some_chain_is_in_it(self) -> Self:
        _ = self.intervals  # says which entry is wrong
        return self


class IntervalTheta(Entrywise):
    """A class of chains over more than two states, entrywise.

    With `backward` the chain reversed in time lies within that as well: row x holds P(y before | x) for every y.
    What `low` and `high` imply for the reversal always counts, so it may be left out.
    """

    backward: Entrywise | None = None

    @model_validator(mode="after")
    def _both_directions_agree(self) -> Self:
        if self.backward is not None and len(self.backward.low) != self.k:
            raise ValueError("backward must have as many rows as low and high")
        try:
            _ = self.chains
        except ValueError as error:
            raise ValueError(f"backward does not go with low and high: {error}") from None
        return self

    @property
    def k(self) -> int:
        return len(self.low)

    @property
    def chains(self) -> Class:
        return _class_of(self.intervals, None if self.backward is None else self.backward.intervals)

    def contains(self, other: BinaryTheta | IntervalTheta) -> bool:
        """Whether every chain of the other is in this: what is implied for the reversal needs no comparison."""
        return (
            isinstance(other, IntervalTheta)
            and self.intervals.contains(other.intervals)
            and (self.backward is None or self.backward.intervals.contains(other.chains.backward))
        )


# What the forward intervals imply for the reversal takes a while, and is asked for with every setting and release.
_class_of = lru_cache(maxsize=4096)(Class.of)


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        return TWO if value.keys() & {"q", "r"} else MORE
    return MORE if isinstance(value, IntervalTheta) else TWO


Theta = Annotated[
    Annotated[BinaryTheta, Tag(TWO)] | Annotated[IntervalTheta, Tag(MORE)], Discriminator(_shape)
]


@overload
def theta_of(chains: Box) -> BinaryTheta: ...
@overload
def theta_of(chains: Class) -> IntervalTheta: ...
def theta_of(chains: Box | Class) -> BinaryTheta | IntervalTheta:
    """How a class of chains is written on the wire."""
    if isinstance(chains, Box):
        return BinaryTheta(
            q=Interval(low=chains.q_low, high=chains.q_high), r=Interval(low=chains.r_low, high=chains.r_high)
        )
    forward, backward = chains.forward, chains.backward
    return IntervalTheta(
        low=forward.low, high=forward.high, backward=Entrywise(low=backward.low, high=backward.high)
    )


def box_of(theta: BinaryTheta | IntervalTheta) -> Box:
    """Θ of a stream that is known to have two states; Problem where it has more."""
    if isinstance(theta, IntervalTheta):
        raise Problem(f"the stream has {theta.k} states, and this is for two")
    return theta.chains
