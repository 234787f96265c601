"""The stale reading: refreshed once a minute, repeated at 2 Hz. Each reading is published 120 times with fresh noise.

Before, nothing noticed. Now the device compares its own states with Θ from the first minutes (docs/theory-world.md,
Theorem 24), and what is lost is lost for the readings until then.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hushmq.evaluation.attackers.hidden import Hidden
from hushmq.evaluation.attacks.attack_outcome import ERROR, AttackOutcome
from hushmq.evaluation.attacks.regime_attack import first_alarm, repeated
from hushmq.evaluation.section_list import Job
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound

THETA = BinaryTheta(0.05, 0.45, 0.05, 0.45)
READING = BinaryTheta.point(0.1, 0.1)
"""The chain of the readings, which lies in Θ; that of the ticks does not."""
TIMES, EPSILON, WITHIN = 120, 4.0, 1200


def attacks(job: Job) -> Iterator[AttackOutcome]:
    """Repeated for ever, stopped by the device's watch, and sampled once for each reading."""
    noise = optimal_noise(THETA, EPSILON)
    lost = loss(READING, tau0=TIMES * noise.tau0, tau1=TIMES * noise.tau1, adversary="prior")
    runs = 40 if job.quick else 400
    alarms = first_alarms(runs, ticks=2 * WITHIN, rng=job.rng("stale"))
    soon = sum(alarm is not None and alarm <= WITHIN for alarm in alarms)
    median = int(np.median([alarm or 2 * WITHIN for alarm in alarms]))
    least = lower_confidence_bound(soon, runs, ERROR)
    yield AttackOutcome(
        "stale reading",
        f"refreshed every {TIMES} ticks, published at each; README's Θ",
        EPSILON,
        lost,
        lost,
        f"exact; noticed within {WITHIN} ticks in {soon} of {runs}, that is in {least:.1%} or more",
        f"the device notices after {median} ticks (median) and warns, or stops where the policy says so: the first "
        "readings are lost, the rest are not",
    )
    own = loss(THETA, tau0=noise.tau0, tau1=noise.tau1)
    yield AttackOutcome(
        "stale reading",
        "the same source, sampled once for each reading",
        EPSILON,
        lost,
        own,
        "exact",
        "a source that repeats is sampled at its own rate",
    )


def first_alarms(runs: int, *, ticks: int, rng: np.random.Generator) -> list[int | None]:
    """After how many ticks each of the runs is noticed."""
    chain = Hidden(READING.q_low, READING.r_low, optimal_noise(THETA, EPSILON))
    paths = chain.paths(runs, ticks // TIMES + 1, rng).astype(np.int64)
    return [first_alarm(THETA, repeated(path, TIMES)) for path in paths]
