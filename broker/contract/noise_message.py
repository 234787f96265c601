"""Noise on the wire: `{rho0, rho1}` for two states, an emission matrix with its certificate for more."""

from __future__ import annotations

import math
from typing import Annotated, Any, Self

from pydantic import Discriminator, Field, Tag, model_validator

from hushmq.broker.contract.message_base import (
    BINARY_TAG,
    CATEGORICAL_TAG,
    Magnitude,
    Message,
    Probability,
)
from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical import contraction
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.emission import tilt_of
from hushmq.pufferfish.noise.perturber import word_counts
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.undecided import with_spread


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

    def least_probability(self) -> float:
        """The smallest probability of any output."""
        return min(self.rho0, self.rho1)

    def proven_loss(
        self, theta: Theta, windows: float, adversary: Adversary, share: float = 1.0, stride: int = 1
    ) -> float:
        """The exact loss (docs/theory.md, Theorems 2 and 4), which needs no proof; ValueError for another Θ.

        With a stride that of docs/theory-regimes.md, Theorem R5.
        """
        tau0, tau1 = self.noise.tilts
        _check_states(theta, self.k)
        if stride > 1 and windows:
            raise ValueError("device windows are not priced beside a stride")
        return theta.constant_loss(
            (tau0 + windows) / share, (tau1 + windows) / share, adversary, stride=stride
        )

    @model_validator(mode="after")
    def _informative(self) -> Self:
        if self.rho0 + self.rho1 >= 1:
            raise ValueError("rho0 + rho1 must be below 1")
        return self


class CertificateSideMessage(Message):
    """One side of a certificate: a bound on the loss from that side, in nats, preserved by a step of `hops` ticks."""

    hops: Annotated[int, Field(ge=1, le=1024)]
    bound: Magnitude


class CertificateMessage(Message):
    """Proof that a tilt of `tau` at every tick is within ε for Θ, which the device verifies without any search.

    `tau` covers everything that is published about one tick: the sanitized state and the device windows, divided by the
    stream's share of its account.
    """

    tau: Annotated[Magnitude, Field(gt=0)]
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

    def least_probability(self) -> float:
        """The smallest probability of any output; ValueError for a matrix that cannot be drawn from exactly."""
        word_counts(self.emission)
        return min(map(min, self.emission))

    def proven_loss(
        self, theta: Theta, windows: float, adversary: Adversary, share: float = 1.0, stride: int = 1
    ) -> float:
        """The loss that the certificate proves; ValueError where it proves none.

        docs/theory-k.md, Theorem 8, and against the informed adversary Theorems 10 and 11. With a stride it is that
        of Theorem 13 for the certificate's tilt, which is computed here and needs no proof.
        """
        _check_states(theta, self.k)
        if not isinstance(theta, CategoricalTheta):
            raise ValueError(f"no loss can be proved for {theta.in_words()}")  # noqa: TRY004  # refused, not a bug
        if stride > 1 and windows:
            raise ValueError("device windows are not priced beside a stride")
        spread = theta.odds_spread if adversary == "undecided" else 0.0
        proof, tilt = self.certificate.proof, (tilt_of(self.emission) + windows) / share
        if not tilt <= proof.tau:
            raise ValueError(f"every tick is tilted by {tilt:.6g}, the certificate is for {proof.tau:.6g}")
        if stride > 1:
            if not math.isfinite(loss := theta.constant_loss(proof.tau, proof.tau, adversary, stride=stride)):
                raise ValueError(f"nothing is proved for a stride of {stride}: Θ may forget too slowly")
            return loss
        try:
            found = contraction.certified_loss(theta, proof, informed=adversary == "informed")
            return with_spread(found, spread)
        except ValueError as error:
            raise ValueError(f"the certificate: {error}") from None

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


def _check_states(theta: Theta, states: int) -> None:
    """Raise ValueError unless Θ has as many states as the noise."""
    if theta.states != states:
        raise ValueError(f"the noise is for {states} states, Θ for {theta.states}")


def binary_noise_of(noise: NoiseMessage) -> BinaryNoise:
    """Return the noise of a stream with two states; raise Problem if it has more."""
    if isinstance(noise, CategoricalNoiseMessage):
        raise Problem(f"the stream has {noise.k} states; two are required here")
    return noise.noise
