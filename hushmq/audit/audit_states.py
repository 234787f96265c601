"""The evidence of an audit for more than two states: the prior adversary, on one persistent chain of Θ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hushmq.audit.claim import Claim
from hushmq.audit.dependence import IndependenceTest
from hushmq.broker.contract.noise_message import CategoricalNoiseMessage
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import CategoricalThetaMessage
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound, upper_confidence_bound
from hushmq.pufferfish.witness.state_witness import (
    StateWitness,
    best_for_states,
    least_loss,
    most_persistent_chain,
)


class CategoricalAuditEvidence:
    """Counts of outputs by state, and the lower bound on the loss that follows from them.

    Windows that the device releases itself are ignored, which only lowers the bound.
    """

    adversaries: tuple[Adversary, ...] = ("prior",)
    witnesses = 1

    def __init__(self, claim: Claim) -> None:
        noise, theta = claim.setting.noise, claim.setting.theta
        if not isinstance(noise, CategoricalNoiseMessage) or not isinstance(theta, CategoricalThetaMessage):
            raise TypeError("an emission matrix comes with a Θ of as many states")
        chain = most_persistent_chain(theta.chains)
        if chain is None:
            raise Problem(
                "Θ: no chain was found that satisfies its bounds in both directions of time; nothing can be audited"
            )
        self._chain, self._emission = chain, noise.emission
        kept = min(row[x] for x, row in enumerate(noise.emission))
        self.stated_noise = {"kept": (kept, "least chance of the true state")}
        self.bounds = 2 * noise.k * noise.k
        self.states = bytes(value % noise.k for value in range(256))
        self._pairs: Counter[tuple[int, int]] = Counter()
        self.dependence = IndependenceTest()

    def chosen_witnesses(self, *, ticks: int, deviations: float) -> Iterator[tuple[Adversary, StateWitness]]:
        """The witness to count."""
        yield "prior", best_for_states(self._chain, self._emission, ticks=ticks, deviations=deviations)

    def add(self, states: bytes, outputs: bytes) -> None:
        """Counts pairs of state and output; the states are independent, so the pairs are too."""
        self._pairs.update(zip(states, outputs, strict=True))
        changed = bytes(48 + (x != z) for x, z in zip(states, outputs, strict=True))
        ticks = len(states)
        self.dependence.add(int(changed, 2), [(1 << ticks) - 1], ticks)

    def by_ticks(self, error: float) -> dict[Adversary, float]:
        """The lower bound on the loss of every emission matrix within the confidence bounds."""
        k = self._chain.k
        draws = [sum(self._pairs[x, z] for z in range(k)) for x in range(k)]
        low, high = (
            tuple(tuple(bound(self._pairs[x, z], draws[x], error) for z in range(k)) for x in range(k))
            for bound in (lower_confidence_bound, upper_confidence_bound)
        )
        return {"prior": least_loss(self._chain, low, high)}
