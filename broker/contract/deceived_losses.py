"""What a stream's policy promises even if learning is deceived: by devices that lie, or by the calibrator itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.pufferfish.deceived_loss import deceived_loss, deceived_public_loss


@dataclass(frozen=True, slots=True)
class DeceivedLosses:
    """The most that a device can lose to each audience while its chain is in `theta.start`; infinite if unbounded."""

    operator: float
    public: float

    def as_tree(self) -> dict[str, float | None]:
        """For programs: None where nothing is proved."""
        return {
            name: loss if math.isfinite(loss) else None
            for name, loss in (("operator", self.operator), ("public", self.public))
        }

    def in_words(self) -> str:
        """The same for people."""
        losses = (
            f"{loss:.4f}" if math.isfinite(loss) else "no bound" for loss in (self.operator, self.public)
        )
        return "{} to operators, {} to the public".format(*losses)


def deceived_losses(policy: StreamPolicy) -> DeceivedLosses:
    """The losses of Theorem 13 (docs/theory-world.md): devices accept no Θ without the floor, and no loss beyond ε."""
    start, floor = policy.theta.start.chains, policy.theta.floor.chains
    epsilon, adversary, stride = policy.epsilon, policy.adversary, policy.stride
    return DeceivedLosses(
        deceived_loss(start, floor, epsilon.operator, adversary, stride=stride),
        deceived_public_loss(start, floor, epsilon.public, adversary, stride=stride),
    )
