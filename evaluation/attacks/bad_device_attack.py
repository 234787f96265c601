"""Bad devices: a single constant one that ended all releases, and invented ones that narrow Θ for a newcomer.

Under the rule of before, a device whose own Θ is over the budget ends the releases of its cohort, and Θ follows whoever
sends most. What invented devices can reach at most is the floor of Θ, which ops state and which has a number
(docs/theory-world.md, W7). What happens now is asked of a real cohort with simulated devices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.evaluation.attacks.attack_outcome import AttackOutcome
from hushmq.evaluation.attacks.attacked_cohort import (
    FLOOR,
    START,
    attacked_cohort,
    constant,
    honest,
    policy_of,
)
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise

EPSILON, OTHERS = 4.0, (0.15, 0.15)
NEWCOMER = BinaryTheta.point(START.q_low, START.r_low)
"""A chain inside of the policy's start."""


@dataclass(frozen=True, slots=True)
class Service:
    """How many windows of a cohort were released, under the old rule and now."""

    case: str
    windows: int
    before: int
    now: int
    left_out: int

    @property
    def cells(self) -> list[Cell]:
        """A row of the table."""
        return [self.case, self.windows, self.before, self.now, self.left_out]


SERVICE_COLUMNS = ("case", "windows", "released before", "released now", "devices left out")


def service(job: Job) -> Iterator[Service]:
    """One device among honest ones never changes its state; ε = 8, at which it is noticed soon."""
    for count in (10,) if job.quick else (10, 30):
        devices = {f"honest-{number}": honest(*OTHERS) for number in range(count)} | {"bad": constant}
        with attacked_cohort(policy_of(8.0), job.rng("constant", count)) as found:
            for _ in range(8 if job.quick else 14):
                found.window(devices)
            yield Service(
                f"one constant device among {count}",
                len(found.released),
                found.released_under_the_old_rule,
                sum(found.released),
                len(found.left_out[-1]),
            )


def attacks(job: Job) -> Iterator[AttackOutcome]:
    """Forty invented devices, at the stated rate of admission, and then a newcomer with a slower chain."""
    devices = {f"honest-{number}": honest(*OTHERS) for number in range(3)}
    invented = {f"invented-{number}": honest(*OTHERS) for number in range(40)}
    windows = 10 if job.quick else 20
    with attacked_cohort(policy_of(EPSILON), job.rng("invented"), RosterSection()) as found:
        for _ in range(windows):
            found.window(devices | invented)
        noise, theta = found.noise, found.theta
    old = optimal_noise(BinaryTheta.point(FLOOR.q_low, FLOOR.r_low), EPSILON)
    least = optimal_noise(FLOOR, EPSILON)
    yield AttackOutcome(
        "invented devices",
        f"40 beside 3 honest ones for {windows} windows, then a newcomer with q = r = {NEWCOMER.q_low:g} in start",
        EPSILON,
        loss(NEWCOMER, tau0=old.tau0, tau1=old.tau1),
        loss(NEWCOMER, tau0=noise.tau0, tau1=noise.tau1),
        f"exact for the noise in force after one run, Θ {theta.in_brief()}",
        f"at most {loss(NEWCOMER, tau0=least.tau0, tau1=least.tau1):.3g}, which is the floor's number, however many "
        "there are",
    )
