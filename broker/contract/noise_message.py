"""Noise on the wire: `{rho0, rho1}` for two states, an emission matrix with its certificate for more."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from hushmq.broker.contract.message_base import BINARY_TAG, CATEGORICAL_TAG, Message, Probability
from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical import contraction
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise


class BinaryNoiseMessage(Message):
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
        return self.noise.in_words()

    @model_validator(mode="after")
    def _informative(self) -> Self:
        if self.rho0 + self.rho1 >= 1:
            raise ValueError("rho0 + rho1 must be below 1")
        return self


class CertificateSideMessage(Message):
    """One side of a certificate: a bound on the loss from that side, in nats, preserved by a step of `hops` ticks."""

    hops: Annotated[int, Field(ge=1, le=1024)]
    bound: Annotated[float, Field(ge=0)]


class CertificateMessage(Message):
    """Proof that a tilt of `tau` at every tick is within ε for Θ, which the device verifies without any search.

    `tau` covers everything that the device publishes about one tick: its sanitized state and its device windows.
    """

    tau: Annotated[float, Field(gt=0)]
    left: CertificateSideMessage
    right: CertificateSideMessage

    @property
    def proof(self) -> contraction.Certificate:
        return contraction.Certificate(
            self.tau, (self.left.hops, self.left.bound), (self.right.hops, self.right.bound)
        )

    @classmethod
    def of(cls, proof: contraction.Certificate) -> CertificateMessage:
        left, right = (
            CertificateSideMessage(hops=hops, bound=bound) for hops, bound in (proof.left, proof.right)
        )
        return cls(tau=proof.tau, left=left, right=right)


class CategoricalNoiseMessage(Message):
    """Independent noise on states: state u is sent as z with probability emission[u][z]."""

    emission: Annotated[tuple[tuple[Probability, ...], ...], Field(min_length=3, max_length=256)]
    certificate: CertificateMessage

    @property
    def k(self) -> int:
        return len(self.emission)

    @property
    def noise(self) -> CategoricalNoise:
        return CategoricalNoise(self.emission)

    @property
    def words(self) -> str:
        return self.noise.in_words()

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


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        return CATEGORICAL_TAG if value.keys() & {"emission", "certificate"} else BINARY_TAG
    return CATEGORICAL_TAG if isinstance(value, CategoricalNoiseMessage) else BINARY_TAG


NoiseMessage = Annotated[
    Annotated[BinaryNoiseMessage, Tag(BINARY_TAG)] | Annotated[CategoricalNoiseMessage, Tag(CATEGORICAL_TAG)],
    Discriminator(_shape),
]


def binary_noise_of(noise: BinaryNoiseMessage | CategoricalNoiseMessage) -> BinaryNoise:
    """Return the noise of a stream with two states; raise Problem if it has more."""
    if isinstance(noise, CategoricalNoiseMessage):
        raise Problem(f"the stream has {noise.k} states; two are required here")
    return noise.noise
