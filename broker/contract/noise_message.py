"""The noise of a stream on the wire: `{rho0, rho1}` for two states, an emission matrix with its proof for more."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from hushmq.broker.contract.message_base import MORE, TWO, Message, Probability
from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.binary.stream_loss import Noise as BinaryNoise
from hushmq.pufferfish.categorical import contraction
from hushmq.pufferfish.categorical.transition_intervals import Rows


class Flips(Message):
    """Independent noise on bits: ρ0 = P(Z=1|X=0), ρ1 = P(Z=0|X=1)."""

    rho0: Probability
    rho1: Probability

    @property
    def k(self) -> int:
        return 2

    @property
    def noise(self) -> BinaryNoise:
        return BinaryNoise(self.rho0, self.rho1)

    @property
    def words(self) -> str:
        return f"ρ {self.rho0:.4f}, {self.rho1:.4f}"

    @model_validator(mode="after")
    def _informative(self) -> Self:
        if self.rho0 + self.rho1 >= 1:
            raise ValueError("rho0 + rho1 must be below 1")
        return self


class Side(Message):
    """One side of a certificate: a step of so many hops keeps the bound on the loss from that side, in nats."""

    hops: Annotated[int, Field(ge=1, le=1024)]
    bound: Annotated[float, Field(ge=0)]


class Certificate(Message):
    """What proves that a tilt of `tau` at every tick is within ε for Θ: the device checks it, it does not search.

    `tau` is for everything made from one tick together: the sanitized stream and the device's own windows.
    """

    tau: Annotated[float, Field(gt=0)]
    left: Side
    right: Side

    @property
    def proof(self) -> contraction.Certificate:
        return contraction.Certificate(
            self.tau, (self.left.hops, self.left.bound), (self.right.hops, self.right.bound)
        )

    @classmethod
    def of(cls, proof: contraction.Certificate) -> Certificate:
        left, right = (Side(hops=hops, bound=bound) for hops, bound in (proof.left, proof.right))
        return cls(tau=proof.tau, left=left, right=right)


class Emission(Message):
    """Independent noise on states: state u is sent as z with probability emission[u][z]."""

    emission: Annotated[tuple[tuple[Probability, ...], ...], Field(min_length=3, max_length=256)]
    certificate: Certificate

    @property
    def k(self) -> int:
        return len(self.emission)

    @property
    def words(self) -> str:
        return kept(self.emission)

    @model_validator(mode="after")
    def _informative(self) -> Self:
        for number, row in enumerate(self.emission):
            if len(row) != self.k:
                raise ValueError(f"emission row {number} must have {self.k} entries, one for each state")
            if not abs(math.fsum(row) - 1.0) <= 1e-9:
                raise ValueError(f"emission row {number} must sum to 1")
        if all(row == self.emission[0] for row in self.emission):
            raise ValueError("the rows of emission must differ")
        return self


def kept(emission: Rows) -> str:
    """How often a state is sent as it is, in words."""
    truths = [row[state] for state, row in enumerate(emission)]
    low, high = min(truths), max(truths)
    return f"kept {low:.4f}" if low == high else f"kept {low:.4f}–{high:.4f}"


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        return MORE if value.keys() & {"emission", "certificate"} else TWO
    return MORE if isinstance(value, Emission) else TWO


Noise = Annotated[Annotated[Flips, Tag(TWO)] | Annotated[Emission, Tag(MORE)], Discriminator(_shape)]


def flips_of(noise: Flips | Emission) -> BinaryNoise:
    """The noise of a stream that is known to have two states; Problem where it has more."""
    if isinstance(noise, Emission):
        raise Problem(f"the stream has {noise.k} states, and this is for two")
    return noise.noise
