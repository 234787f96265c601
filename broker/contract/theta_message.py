"""Θ on the wire, a set of chains: `{q, r}` or `{regimes}` for two states and `{low, high}` for more."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Self, overload

from pydantic import Discriminator, Field, Tag, model_validator

from hushmq.broker.contract.message_base import (
    BINARY_TAG,
    CATEGORICAL_TAG,
    REGIME_TAG,
    Message,
    Probability,
)
from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.regimes.regime_chain import MOST_REGIMES, RegimeChain
from hushmq.pufferfish.regimes.regime_theta import MOST_MEMBERS, RegimeTheta

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


class BinaryThetaMessage(Message):
    """Θ for two states: all chains with P(0→1) within q and P(1→0) within r."""

    q: Interval
    r: Interval

    @property
    def k(self) -> int:
        return 2

    @property
    def chains(self) -> BinaryTheta:
        return BinaryTheta(self.q.low, self.q.high, self.r.low, self.r.high)

    def contains(self, other: ThetaMessage) -> bool:
        return isinstance(other, BinaryThetaMessage) and self.chains.contains(other.chains)


class TransitionIntervalsMessage(Message):
    """Transition matrices P with low ≤ P ≤ high in every entry; row x holds P(x→y) for every y."""

    low: Matrix
    high: Matrix

    @property
    def intervals(self) -> TransitionIntervals:
        return TransitionIntervals(self.low, self.high)

    @model_validator(mode="after")
    def _some_chain_is_in_it(self) -> Self:
        _ = self.intervals  # raises ValueError that names the wrong entry
        return self


class CategoricalThetaMessage(TransitionIntervalsMessage):
    """Θ for more than two states: all chains whose transition probabilities lie between `low` and `high`.

    With `backward`, the chain reversed in time lies within those intervals as well: row x holds P(y before | x) for
    every y. The intervals that `low` and `high` imply for the reversed chain always apply, so `backward` is optional.
    """

    backward: TransitionIntervalsMessage | None = None

    @model_validator(mode="after")
    def _both_directions_agree(self) -> Self:
        if self.backward is not None and len(self.backward.low) != self.k:
            raise ValueError("backward must have as many rows as low and high")
        try:
            _ = self.chains
        except ValueError as error:
            raise ValueError(f"backward contradicts low and high: {error}") from None
        return self

    @property
    def k(self) -> int:
        return len(self.low)

    @property
    def chains(self) -> CategoricalTheta:
        return _categorical_theta(self.intervals, None if self.backward is None else self.backward.intervals)

    def contains(self, other: ThetaMessage) -> bool:
        """Whether every chain of the other Θ is in this one.

        Intervals of the reversed chain are compared only where `backward` states them: implied ones follow.
        """
        return (
            isinstance(other, CategoricalThetaMessage)
            and self.intervals.contains(other.intervals)
            and (self.backward is None or self.backward.intervals.contains(other.chains.backward))
        )


# Deriving the intervals of the reversed chain is slow, and needed for every setting and release.
_categorical_theta = lru_cache(maxsize=4096)(CategoricalTheta.of)


class WithinRegimeMessage(Message):
    """The chain of the states within one regime: P(0→1) and P(1→0)."""

    q: Probability
    r: Probability


class RegimeChainMessage(Message):
    """A chain with hidden regimes: a step draws the new regime by `transition`, then the state by its chain."""

    transition: Annotated[tuple[tuple[Entry, ...], ...], Field(min_length=1, max_length=MOST_REGIMES)]
    chains: Annotated[tuple[WithinRegimeMessage, ...], Field(min_length=1, max_length=MOST_REGIMES)]

    @property
    def chain(self) -> RegimeChain:
        return RegimeChain.of(self.transition, [(one.q, one.r) for one in self.chains])

    @classmethod
    def of(cls, chain: RegimeChain) -> RegimeChainMessage:
        return cls(
            transition=chain.transition, chains=tuple(WithinRegimeMessage(q=q, r=r) for q, r in chain.chains)
        )

    @model_validator(mode="after")
    def _is_a_chain(self) -> Self:
        _ = self.chain  # raises ValueError that names the wrong entry
        return self


class RegimeThetaMessage(Message):
    """Θ for two states: any of a few chains with hidden regimes; a single one may be written without a list."""

    regimes: (
        Annotated[tuple[RegimeChainMessage, ...], Field(min_length=1, max_length=MOST_MEMBERS)]
        | RegimeChainMessage
    )

    @property
    def k(self) -> int:
        return 2

    @property
    def chains(self) -> RegimeTheta:
        return _regime_theta(self.regimes if isinstance(self.regimes, tuple) else (self.regimes,))

    def contains(self, other: ThetaMessage) -> bool:
        return isinstance(other, RegimeThetaMessage) and self.chains.contains(other.chains)


@lru_cache(maxsize=4096)
def _regime_theta(regimes: tuple[RegimeChainMessage, ...]) -> RegimeTheta:
    return RegimeTheta.of(one.chain for one in regimes)


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        if "regimes" in value:
            return REGIME_TAG
        return BINARY_TAG if value.keys() & {"q", "r"} else CATEGORICAL_TAG
    if isinstance(value, RegimeThetaMessage):
        return REGIME_TAG
    return CATEGORICAL_TAG if isinstance(value, CategoricalThetaMessage) else BINARY_TAG


ThetaMessage = Annotated[
    Annotated[BinaryThetaMessage, Tag(BINARY_TAG)]
    | Annotated[CategoricalThetaMessage, Tag(CATEGORICAL_TAG)]
    | Annotated[RegimeThetaMessage, Tag(REGIME_TAG)],
    Discriminator(_shape),
]


@overload
def theta_message(chains: BinaryTheta) -> BinaryThetaMessage: ...
@overload
def theta_message(chains: CategoricalTheta) -> CategoricalThetaMessage: ...
@overload
def theta_message(chains: RegimeTheta) -> RegimeThetaMessage: ...
def theta_message(chains: BinaryTheta | CategoricalTheta | RegimeTheta) -> ThetaMessage:
    """Return Θ as a message."""
    if isinstance(chains, RegimeTheta):
        return RegimeThetaMessage(regimes=tuple(map(RegimeChainMessage.of, chains.members)))
    if isinstance(chains, BinaryTheta):
        return BinaryThetaMessage(
            q=Interval(low=chains.q_low, high=chains.q_high), r=Interval(low=chains.r_low, high=chains.r_high)
        )
    forward, backward = chains.forward, chains.backward
    return CategoricalThetaMessage(
        low=forward.low,
        high=forward.high,
        backward=TransitionIntervalsMessage(low=backward.low, high=backward.high),
    )


def binary_theta_of(theta: ThetaMessage) -> BinaryTheta:
    """Return the Θ of a stream with two states, as intervals; raise Problem if it has more, or regimes."""
    if isinstance(theta, BinaryThetaMessage):
        return theta.chains
    if isinstance(theta, RegimeThetaMessage):
        raise Problem("Θ has hidden regimes; intervals of q and r are required here")
    raise Problem(f"the stream has {theta.k} states; two are required here")


def categorical_theta_of(theta: ThetaMessage) -> CategoricalTheta:
    """Return the Θ of a stream with more than two states; raise Problem if it has two."""
    if isinstance(theta, CategoricalThetaMessage):
        return theta.chains
    raise Problem("the stream has two states; more are required here")


def regime_theta_of(theta: ThetaMessage) -> RegimeTheta:
    """Return the Θ of a stream with hidden regimes; raise Problem if it has none."""
    if isinstance(theta, RegimeThetaMessage):
        return theta.chains
    raise Problem("Θ has no hidden regimes; chains with regimes are required here")
