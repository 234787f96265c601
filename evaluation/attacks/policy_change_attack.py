"""A changed meaning: after a policy with another threshold the states follow another chain.

Under the rule of before, the Θ that was learned for the old meaning stays, and with it noise that is too weak for the
new one. What learned Θ and noise are after the change is asked of a real cohort (docs/theory-world.md, W3).
"""

from __future__ import annotations

from collections.abc import Iterator

from hushmq.evaluation.attacks.attack_outcome import AttackOutcome
from hushmq.evaluation.attacks.attacked_cohort import attacked_cohort, honest, policy_of
from hushmq.evaluation.section_list import Job
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss

EPSILON = 8.0
START = BinaryTheta(0.015, 0.45, 0.015, 0.45)
BEFORE, AFTER = (0.15, 0.15), BinaryTheta.point(0.015, 0.015)
"""How the states move under the old threshold, and under the new one; both are chains of the policy's start."""


def attacks(job: Job) -> Iterator[AttackOutcome]:
    """A cohort learns the old chain, and then follows a policy with another threshold."""
    devices = {f"honest-{number}": honest(*BEFORE) for number in range(20)}
    with attacked_cohort(policy_of(EPSILON, start=START), job.rng("meaning")) as found:
        for _ in range(8):
            found.window(devices)
        learned, theta = found.noise, found.theta
        found.adopt(policy_of(EPSILON, start=START, version=2, at=5.0))
        now, anew = found.noise, found.theta
    yield AttackOutcome(
        "policy change",
        f"another threshold: from q = r = {BEFORE[0]:g}, learned as {theta.in_brief()}, to q = r = {AFTER.q_low:g}",
        EPSILON,
        loss(AFTER, tau0=learned.tau0, tau1=learned.tau1),
        loss(AFTER, tau0=now.tau0, tau1=now.tau1),
        "exact for the noise in force after the change, in one run",
        f"after the change devices are given noise for Θ {anew.in_brief()}",
    )
