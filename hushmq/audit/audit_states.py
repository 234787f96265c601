"""How a stream of more than two states is looked at: the prior adversary, on one lasting chain of Θ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hushmq.audit.claim import Claim
from hushmq.audit.dependence import Dependence
from hushmq.broker.contract.noise_message import Emission
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import IntervalTheta
from hushmq.pufferfish.binary.stream_loss import Adversary
from hushmq.pufferfish.inference.clopper_pearson import highest, lowest
from hushmq.pufferfish.witness.state_witness import StateWitness, best_for_states, least_loss, member


class States:
    """What is counted of a claim about states, and what that shows.

    Windows that the device releases beside the stream are left out: without them the bounds hold all the more.
    """

    adversaries: tuple[Adversary, ...] = ("prior",)
    witnesses = 1

    def __init__(self, claim: Claim) -> None:
        noise, theta = claim.setting.noise, claim.setting.theta
        if not isinstance(noise, Emission) or not isinstance(theta, IntervalTheta):
            raise TypeError("an emission matrix comes with a Θ of as many states")
        chain = member(theta.chains)
        if chain is None:
            raise Problem(
                "Θ: no chain was found that lies in it in both directions of time; there is nothing to audit"
            )
        self._chain, self._emission = chain, noise.emission
        self.bounds = 2 * noise.k * noise.k
        self.states = bytes(value % noise.k for value in range(256))
        self._pairs: Counter[tuple[int, int]] = Counter()
        self.dependence = Dependence()

    def telling(self, *, ticks: int, deviations: float) -> Iterator[tuple[Adversary, StateWitness]]:
        """The one witness."""
        yield "prior", best_for_states(self._chain, self._emission, ticks=ticks, deviations=deviations)

    def add(self, states: bytes, outputs: bytes) -> None:
        """Count one stretch of random states. Since these are independent, so are pairs of state and output."""
        self._pairs.update(zip(states, outputs, strict=True))
        changed = bytes(48 + (x != z) for x, z in zip(states, outputs, strict=True))
        ticks = len(states)
        self.dependence.add(int(changed, 2), [(1 << ticks) - 1], ticks)

    def by_ticks(self, error: float) -> dict[Adversary, float]:
        """A loss that every emission has which the counts leave possible."""
        k = self._chain.k
        draws = [sum(self._pairs[x, z] for z in range(k)) for x in range(k)]
        low, high = (
            tuple(tuple(bound(self._pairs[x, z], draws[x], error) for z in range(k)) for x in range(k))
            for bound in (lowest, highest)
        )
        return {"prior": least_loss(self._chain, low, high)}
