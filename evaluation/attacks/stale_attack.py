"""The stale reading: refreshed once a minute, repeated at 2 Hz. Each reading is published 120 times with fresh noise.

Before, nothing noticed. Now the device compares its own states with Θ from the first minutes (docs/theory-world.md,
Theorem 24), names a source whose readings arrive evenly with the period that fits, and by `outside_theta = "stand-in"`
or `"stop"` publishes nothing true after its alarm. What was published until then is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hushmq.agent.watch.arrival_rate import INTERVALS, MS, ArrivalRate
from hushmq.evaluation.attackers.hidden import Hidden
from hushmq.evaluation.attacks.attack_outcome import ERROR, AttackOutcome
from hushmq.evaluation.attacks.watched_states import Bits, watched
from hushmq.evaluation.section_list import Job
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound

THETA = BinaryTheta(0.05, 0.45, 0.05, 0.45)
READING = BinaryTheta.point(0.1, 0.1)
"""The chain of the readings, which lies in Θ; that of the ticks does not."""
SLOWEST = BinaryTheta.point(0.05, 0.05)
"""The chain of Θ that decided the noise before."""
NEXT_TO_KNOWN = math.log((1 - READING.q_low) / READING.r_low)
"""What the last reading before the alarm, which is as good as known, says about the next one."""
TIMES, EPSILON, WITHIN, TICKS = 120, 4.0, 1_800, 6_000


def attacks(job: Job) -> Iterator[AttackOutcome]:
    """The readings until the alarm, those after it, and the same source at its own rate."""
    noise = optimal_noise(THETA, EPSILON)
    before, lost = (repeated_loss(one) for one in (optimal_noise(SLOWEST, EPSILON), noise))
    runs = 40 if job.quick else 400
    alarms = [watched(THETA, path).replaced for path in repeated_readings(runs, job.rng("stale"))]
    soon = sum(alarm is not None and alarm <= WITHIN for alarm in alarms)
    least = lower_confidence_bound(soon, runs, ERROR)
    counted = f"alarm within {WITHIN} ticks in {soon} of {runs}, that is in {least:.1%} or more"
    median = int(np.median([TICKS if alarm is None else alarm for alarm in alarms]))
    case = f"refreshed every {TIMES} ticks, published at each; README's Θ"
    yield AttackOutcome(
        "stale reading",
        f"{case}: until the alarm",
        EPSILON,
        before,
        lost,
        f"exact; {counted}",
        f"the readings of the first {median} ticks (median) are lost; a warning comes before",
    )
    yield AttackOutcome(
        "stale reading",
        f"{case}: after the alarm",
        EPSILON,
        before,
        NEXT_TO_KNOWN if all(alarm is not None for alarm in alarms) else lost,
        counted,
        'with outside_theta = "stand-in" or "stop"; by default the device only warns',
    )
    yield AttackOutcome(
        "stale reading",
        "the same source at the period that the device names for it",
        EPSILON,
        before,
        loss(THETA, tau0=noise.tau0, tau1=noise.tau1) if named_period() == 500 * TIMES else lost,
        "exact",
        f"the device names the period after {INTERVALS + 1} readings",
    )


def repeated_loss(noise: BinaryNoise) -> float:
    """The loss about a reading that is published at each of its ticks, all others unknown."""
    return loss(READING, tau0=TIMES * noise.tau0, tau1=TIMES * noise.tau1, adversary="prior")


def repeated_readings(runs: int, rng: np.random.Generator) -> list[Bits]:
    """Paths of readings inside Θ, each repeated."""
    chain = Hidden(READING.q_low, READING.r_low, optimal_noise(THETA, EPSILON))
    paths = chain.paths(runs, TICKS // TIMES, rng).astype(np.int64)
    return [np.repeat(path, TIMES) for path in paths]


def named_period() -> int | None:
    """The period in ms that a device finds for a source refreshed every 120 ticks of 500 ms."""
    rate = ArrivalRate(500)
    for number in range(INTERVALS + 1):
        rate.note(number * 500 * TIMES * MS)
    return rate.every_ms
