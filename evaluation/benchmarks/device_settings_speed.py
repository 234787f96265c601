"""Settings for single devices after a look: what one device takes, and how long ingest waits for a portion of them.

The regions of devices are stated rather than learned: their own, a little narrower at the second look than at the
first, when every device has had a setting of its own. The second look is measured, in processor time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from sqlalchemy import Engine, delete, insert

from hushmq.broker.contract.messages import (
    Assumption,
    Audiences,
    Bins,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.theta_message import theta_of
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.daemon import PORTION_S
from hushmq.calibrator.learning import learn_window as learn
from hushmq.calibrator.models.binary_model import TWO
from hushmq.calibrator.models.categorical_model import MORE
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.benchmarks.benchmark_cohort import TOPICS, benched
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.pufferfish.binary.stream_loss import Adversary, Box
from hushmq.pufferfish.categorical.transition_intervals import Class, Intervals

STREAM = "motion"
AROUND = {1: 0.2, 2: 0.16}
"""How far a device's region reaches from its chain at each look, relatively."""


def run() -> list[Row]:
    quick, slow = (0.15, 0.35), (0.01, 0.05)
    return [
        *measured(
            "two states, prior, quick chains",
            two_states("prior"),
            {n: some_box(n, *quick) for n in range(500)},
        ),
        *measured(
            "two states, informed, slow chains",
            two_states("informed"),
            {n: some_box(n, *slow) for n in range(100)},
        ),
        *measured("four states", four_states(), {n: some_class(n) for n in range(20)}),
    ]


def measured(name: str, stream: StreamPolicy, regions: Mapping[int, dict[int, Box | Class]]) -> list[Row]:
    policy = Policy(version=1, cohort=TOPICS.cohort, streams={STREAM: stream})
    with benched(policy, clock=lambda: 1_800_000_000.0) as (cohort, engine):
        took: list[float] = []
        for look in AROUND:
            _believe(
                engine, stream.theta.start.chains, {n: found[look] for n, found in regions.items()}, look
            )
            cohort.settings()
            took = [_portion(cohort)]
            while cohort.making:
                took.append(_portion(cohort))
        made = len(cohort.own_settings()[STREAM])
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
    cohort.own_settings(PORTION_S)
    return time.process_time() - began


def _believe(engine: Engine, cohorts: Box | Class, devices: Mapping[int, Box | Class], look: int) -> None:
    """As if a look had found these regions."""
    rows = {"": cohorts} | {f"device-{n}": region for n, region in devices.items()}
    belief = learn.learner_of(cohorts).belief
    with engine.begin() as db:
        db.execute(delete(belief))
        db.execute(delete(store.learning))
        learn._keep(db, STREAM, learn.Progress(learn.FIRST_LOOK << 10 + look, hidden=0.0))
        written = [{"stream": STREAM, "device": name, **_written(one)} for name, one in rows.items()]
        db.execute(insert(belief), written)


def _written(region: Box | Class) -> dict[str, object]:
    return TWO.written(region) if isinstance(region, Box) else MORE.written(region)


def two_states(adversary: Adversary) -> StreamPolicy:
    wide, narrow = Box(0.004, 0.45, 0.004, 0.45), Box(0.25, 0.26, 0.25, 0.26)
    return StreamPolicy(
        states=("still", "moving"),
        period_ms=1000,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_of(wide), floor=theta_of(narrow)),
        adversary=adversary,
        epsilon=Audiences(operator=4.0, public=1.0),
        windows={"hour": Window(ticks=3600)},
    )


def some_box(seed: int, low: float, high: float) -> dict[int, Box | Class]:
    rng = random.Random(seed)
    q, r = rng.uniform(low, high), rng.uniform(low, high)
    return {
        look: Box(q * (1 - far), q * (1 + far), r * (1 - far), r * (1 + far)) for look, far in AROUND.items()
    }


def four_states() -> StreamPolicy:
    wide, narrow = _around(0, 0.5), _around(0, 0.05)
    return StreamPolicy(
        states=("lying", "sitting", "walking", "running"),
        period_ms=1000,
        discretiser=Bins(edges=(1.0, 2.0, 3.0)),
        theta=Assumption(start=theta_of(wide), floor=theta_of(narrow)),
        adversary="prior",
        epsilon=Audiences(operator=8.0, public=4.0),
        windows={"hour": Window(ticks=3600)},
    )


def some_class(seed: int) -> dict[int, Box | Class]:
    return {look: _around(seed, far) for look, far in AROUND.items()}


def _around(seed: int, far: float) -> Class:
    """Chains that leave a state with about 0.25: every entry within a share of one device's own."""
    rng = random.Random(seed)
    # Symmetric, so that the chain reversed is the chain.
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
    both = Intervals(low, high)
    return Class.of(both, both)
