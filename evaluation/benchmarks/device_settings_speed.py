"""Device-specific settings after a theta update: what one device takes, and how long ingest waits for a portion.

The regions of devices are stated rather than learned: their own, a little narrower at the second update than at the
first, when every device has got a device-specific setting. The second update is measured, in processor time. Where the
regions are the whole of Θ, no setting is worth its push.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping

from sqlalchemy import Engine

from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Bins,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.learning.learned_theta import LearnedTheta, drop_stream, write_learned
from hushmq.calibrator.learning.learning_progress import Progress, write_progress
from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE
from hushmq.calibrator.serve_cohort import PORTION_S
from hushmq.evaluation.benchmarks.benchmark_cohort import TOPICS, temporary_cohort
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.growth import growth_row
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.protocols import Theta

STREAM = "motion"
AROUND = {1: 0.2, 2: 0.16}
"""The relative half-width of a device's region around its chain at each update."""


SIZES = (100, 300, 1_000)

Regions = Mapping[int, dict[int, BinaryTheta | CategoricalTheta]]


def run() -> Iterator[Row]:
    """Every chain model for more and more devices; then devices for which none is worth it."""
    quick, slow = (0.15, 0.35), (0.01, 0.05)
    most = range(max(SIZES))
    kinds: list[tuple[str, StreamPolicy, Regions, str]] = [
        (
            "two states, prior, quick chains",
            two_states("prior"),
            {n: some_theta(n, *quick) for n in most},
            "",
        ),
        (
            "two states, informed, slow chains",
            two_states("informed"),
            {n: some_theta(n, *slow) for n in most},
            "≤ 5 s",
        ),
        ("four states", four_states(), {n: some_class(n) for n in most}, "≤ 10 s"),
    ]
    for name, stream, regions, aim in kinds:
        yield from grown(name, stream, regions, aim)
    yield skipped("two states", two_states("informed"), max(SIZES))
    yield skipped("four states", four_states(), max(SIZES))


def grown(name: str, stream: StreamPolicy, regions: Regions, aim: str) -> Iterator[Row]:
    """The whole pass for more and more of these devices, and how it grows."""
    took = {}
    for size in SIZES:
        each, longest = measured(name, stream, {n: regions[n] for n in range(size)})
        took[size] = (each.value or 0.0) * size / 1000
    yield Row(f"own settings for {size:,} devices, {name}", took[size], "s", aim=aim)
    yield longest
    yield growth_row(f"own settings, {name}", took, aim="linear: ≤ 1.1")


def skipped(name: str, stream: StreamPolicy, devices: int) -> Row:
    """A pass over devices whose regions are the whole of the Θ assumed: none gets a setting."""
    whole = stream.theta.start.chains
    policy = Policy(version=1, cohort=TOPICS.cohort, streams={STREAM: stream})
    with temporary_cohort(policy, clock=lambda: 1_800_000_000.0) as (cohort, engine):
        _learn(engine, whole, dict.fromkeys(range(devices), whole), 1)
        cohort.calibrate()
        took = [_portion(cohort)]
        while cohort.calibrating:
            took.append(_portion(cohort))
        made = len(cohort.calibrate_devices().in_force.get(STREAM, {}))
    if made:
        raise RuntimeError(f"{name}: {made} devices have settings of their own; none is worth it")
    return Row(
        f"own settings for {devices:,} devices, {name}, where none is worth it",
        sum(took),
        "s",
        f"the longest portion {1000 * max(took):.0f} ms",
        aim="≤ 1 s",
    )


def measured(name: str, stream: StreamPolicy, regions: Regions) -> list[Row]:
    """The time for one device, and the longest portion."""
    policy = Policy(version=1, cohort=TOPICS.cohort, streams={STREAM: stream})
    with temporary_cohort(policy, clock=lambda: 1_800_000_000.0) as (cohort, engine):
        took: list[float] = []
        for update in AROUND:
            _learn(
                engine, stream.theta.start.chains, {n: found[update] for n, found in regions.items()}, update
            )
            cohort.calibrate()
            took = [_portion(cohort)]
            while cohort.calibrating:
                took.append(_portion(cohort))
        made = len(cohort.calibrate_devices().in_force[STREAM])
    if made < 0.9 * len(regions):
        raise RuntimeError(f"{name}: {made} of {len(regions)} devices have settings of their own")
    whole = sum(took)
    return [
        Row(f"own settings, {name}: per device", 1000 * whole / len(regions), "ms"),
        Row(
            f"own settings, {name}: the longest portion",
            1000 * max(took),
            "ms",
            f"all {len(regions)} devices at once, {whole:.2f} s",
            max(took) / whole,
            f"≤ {2000 * PORTION_S:.0f} ms",
        ),
    ]


def _portion(cohort: Cohort) -> float:
    began = time.process_time()
    cohort.calibrate_devices(PORTION_S)
    return time.process_time() - began


def _learn(
    engine: Engine,
    cohorts: Theta,
    devices: Mapping[int, Theta],
    number: int,
) -> None:
    """Stores these regions as the result of a theta update."""
    learned = LearnedTheta(cohorts, {f"device-{n}": region for n, region in devices.items()})
    with engine.begin() as db:
        drop_stream(db, STREAM)
        write_learned(db, STREAM, learned)
        write_progress(db, STREAM, Progress(FIRST_UPDATE << 10 + number, undetectable=0.0))


def two_states(adversary: Adversary) -> StreamPolicy:
    wide, narrow = BinaryTheta(0.004, 0.45, 0.004, 0.45), BinaryTheta(0.25, 0.26, 0.25, 0.26)
    return StreamPolicy(
        states=("still", "moving"),
        period_ms=1000,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(wide), floor=theta_message(narrow)),
        adversary=adversary,
        epsilon=Audiences(operator=4.0, public=1.0),
        windows={"hour": Window(ticks=3600)},
    )


def some_theta(seed: int, low: float, high: float) -> dict[int, BinaryTheta | CategoricalTheta]:
    rng = random.Random(seed)
    q, r = rng.uniform(low, high), rng.uniform(low, high)
    return {
        update: BinaryTheta(q * (1 - far), q * (1 + far), r * (1 - far), r * (1 + far))
        for update, far in AROUND.items()
    }


def four_states() -> StreamPolicy:
    wide, narrow = _around(0, 0.5), _around(0, 0.05)
    return StreamPolicy(
        states=("lying", "sitting", "walking", "running"),
        period_ms=1000,
        discretiser=Bins(edges=(1.0, 2.0, 3.0)),
        theta=Assumption(start=theta_message(wide), floor=theta_message(narrow)),
        adversary="prior",
        epsilon=Audiences(operator=8.0, public=4.0),
        windows={"hour": Window(ticks=3600)},
    )


def some_class(seed: int) -> dict[int, BinaryTheta | CategoricalTheta]:
    return {update: _around(seed, far) for update, far in AROUND.items()}


def _around(seed: int, far: float) -> CategoricalTheta:
    """Chains that leave a state with about 0.25: every entry within a share of one device's own."""
    rng = random.Random(seed)
    # Symmetric, so that the chain is reversible.
    leave = [[0.0] * 4 for _ in range(4)]
    for u in range(4):
        for v in range(u):
            leave[u][v] = leave[v][u] = rng.uniform(0.07, 0.09) if seed else 0.08
    low = tuple(
        tuple(1 - (1 + far) * sum(row) if u == v else (1 - far) * row[v] for v in range(4))
        for u, row in enumerate(leave)
    )
    high = tuple(
        tuple(1 - (1 - far) * sum(row) if u == v else (1 + far) * row[v] for v in range(4))
        for u, row in enumerate(leave)
    )
    both = TransitionIntervals(low, high)
    return CategoricalTheta.of(both, both)
