"""The error of smoothed frequencies beside that of the raw ones and of the long-run average, and what intervals hold.

    python -m hushmq.evaluation.sections.smoothed_shares recorded|simulated

`recorded` takes the windows, the Θ and the three ways to read of `utility`, and a room; `simulated` chains whose law is
known.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushmq.broker.contract.release_smoothing import regime_prior
from hushmq.evaluation.recordings import room
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.sections.reading_ways import WAYS, Reading, Theta, promised, reading
from hushmq.evaluation.sections.recorded_windows import RecordedCohort, Scope, cohorts, scopes
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.inference.share_filter import filtered_history
from hushmq.pufferfish.inference.share_prior import SharePrior, binary_rates, share_prior
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

Floats = NDArray[np.float64]
DAY = 1440
"""Minutes."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Root mean square errors of a window's share, and how often the smoothed one's 95% interval held it."""

    raw: float
    average: float
    so_far: float
    smoothed: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Rows are streams, columns windows: what is true, what is seen and its variance, infinite where there is none."""

    truth: Floats
    seen: Floats
    variances: Floats
    devices: Floats | None = None


def compared(shares: Shares, priors: Sequence[SharePrior], *, average: float) -> Compared:
    """Compare over all windows; `so_far` is the average of the releases so far, which a reader knows."""
    truth, seen, variances = shares.truth, shares.seen, shares.variances
    there = np.isfinite(variances)
    posteriors = filtered_history(seen, variances, priors, shares.devices)
    smoothed, low, high = (
        np.stack([getattr(one, name) for one in posteriors], axis=1) for name in ("share", "low", "high")
    )
    held = (low <= truth) & (truth <= high)
    precisions = np.where(there, 1 / np.where(there, np.maximum(variances, 1e-12), 1.0), 0.0)
    so_far = np.cumsum(precisions * np.where(there, seen, 0.0), axis=1) / np.maximum(
        np.cumsum(precisions, axis=1), 1e-300
    )

    def error(estimate: Floats) -> float:
        return float(np.sqrt(np.mean((estimate - truth)[there] ** 2)))

    return Compared(
        error(seen),
        error(np.full_like(truth, average)),
        error(so_far),
        error(smoothed),
        float(held[there].mean()),
    )


def recorded(
    read: Reading, thetas: Sequence[Theta], ones: Sequence[Floats], scope: Scope, *, reach: int | None = None
) -> Compared:
    """The comparison on recorded windows, from draws of the noise; at most so many windows of each stream.

    The long-run average is that of `utility`, the share of ones in all the ticks of all windows.
    """
    windows = read.windows
    length = int(np.median(windows.ticks))
    rows = _rows(read, ones, cohort=scope == "cohort")
    kept = Shares(*(None if each is None else each[:, :reach] for each in rows))  # type: ignore[arg-type]
    of_rows = [thetas[0]] if scope == "cohort" else thetas[: int(windows.device.max()) + 1]
    priors = [prior_of(theta, length) for theta in of_rows] * len(ones)
    return compared(kept, priors, average=float(windows.ones.sum() / windows.ticks.sum()))


def prior_of(theta: Theta, ticks: int) -> SharePrior:
    """That of the ones."""
    if isinstance(theta, RegimeTheta):
        return regime_prior(theta, ticks=ticks, state=1)
    _, rates = binary_rates((theta.q_low, theta.q_high), (theta.r_low, theta.r_high))
    return share_prior(rates, ticks=ticks)


def _rows(
    read: Reading, ones: Sequence[Floats], *, cohort: bool
) -> tuple[Floats, Floats, Floats, Floats | None]:
    """Truth, seen, variances and devices; a row for each device, or one for the cohort, of every draw."""
    windows = read.windows
    device = np.zeros_like(windows.device) if cohort else windows.device
    shape = (int(device.max()) + 1, int(windows.window.max()) + 1)
    place = device * shape[1] + windows.window

    def laid_out(values: NDArray[np.float64] | NDArray[np.int64]) -> Floats:
        flat = np.bincount(place, weights=values, minlength=shape[0] * shape[1])
        return np.asarray(flat.reshape(shape), dtype=np.float64)

    def repeated(values: Floats) -> Floats:
        return np.tile(values, (len(ones), 1))

    ticks = laid_out(windows.ticks)
    safe = np.maximum(ticks, 1)
    variances = np.where(
        ticks > 0, laid_out(read.variances * windows.ticks.astype(float) ** 2) / safe**2, np.inf
    )
    devices = repeated(laid_out(np.ones(len(place)))) if cohort else None
    seen = np.concatenate([laid_out(one) / safe for one in ones])
    return repeated(laid_out(windows.ones) / safe), seen, repeated(variances), devices


def occupied_room(job: Job) -> RecordedCohort:
    """A room that is occupied or not, minute by minute: no prior weight was chosen by it."""
    minutes = room(job)
    days = np.cumsum([0, *(-(-len(piece) // DAY) for piece in minutes.pieces[:-1])])
    minutes = replace(minutes, starts=[int(day) * DAY for day in days])
    return RecordedCohort("room", [minutes], {"hour": 60, "day": DAY})


@dataclass(frozen=True, slots=True)
class SimulatedChain:
    """Two chains that a hidden regime changes between, with a probability at every tick, and Θ."""

    name: str
    chains: tuple[tuple[float, float], tuple[float, float]]
    change: float
    theta: BinaryTheta


SIMULATED = (
    SimulatedChain("fast, Θ wide", ((0.2, 0.3),) * 2, 0.0, BinaryTheta(0.02, 0.6, 0.02, 0.6)),
    SimulatedChain("fast, Θ the chain", ((0.2, 0.3),) * 2, 0.0, BinaryTheta.point(0.2, 0.3)),
    SimulatedChain("slow, Θ wide", ((0.004, 0.006),) * 2, 0.0, BinaryTheta(0.002, 0.2, 0.002, 0.2)),
    SimulatedChain("slow, Θ the chain", ((0.004, 0.006),) * 2, 0.0, BinaryTheta.point(0.004, 0.006)),
    SimulatedChain(
        "two regimes, Θ of first order", ((0.4, 0.1), (0.1, 0.4)), 1 / 600, BinaryTheta(0.1, 0.4, 0.1, 0.4)
    ),
    # No prior weight was chosen by the following.
    SimulatedChain("middling, Θ wide", ((0.03, 0.05),) * 2, 0.0, BinaryTheta(0.01, 0.2, 0.01, 0.2)),
    SimulatedChain(
        "slower regimes, Θ of first order",
        ((0.3, 0.1), (0.05, 0.2)),
        1 / 3000,
        BinaryTheta(0.05, 0.3, 0.1, 0.2),
    ),
)


def simulated_shares(
    chain: SimulatedChain, *, streams: int, windows: int, ticks: int, rng: np.random.Generator
) -> Floats:
    """True shares of windows: a row for each stream."""
    regime, state = rng.random(streams) < 0.5, np.zeros(streams, dtype=bool)
    (q0, r0), (q1, r1) = chain.chains
    state = rng.random(streams) < np.where(regime, q1 / (q1 + r1), q0 / (q0 + r0))
    ones = np.zeros((streams, windows))
    for window in range(windows):
        for _ in range(ticks):
            regime ^= rng.random(streams) < chain.change
            moved = rng.random(streams) < np.where(state, np.where(regime, r1, r0), np.where(regime, q1, q0))
            state ^= moved
            ones[:, window] += state
    return ones / ticks


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("recorded", "simulated"))
    parser.add_argument("--seed", type=int, default=2024)
    parser.add_argument("--draws", type=int, default=4, help="draws of the noise; default: 4")
    parser.add_argument("--reach", type=int, default=400, help="windows of each stream; default: 400")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the recordings")
    args = parser.parse_args(argv)
    started = time.monotonic()
    errors = "raw | long-run average | average of releases so far | smoothed | interval holds"
    if args.table == "recorded":
        print(
            f"| recordings | Θ | window | of | ε | way | {errors} |\n|---|---|---|---|---:|---|{'---:|' * 5}"
        )
        job = Job("smoothed", False, args.seed, args.data, lambda _share, _step: None)
        for cohort in (*cohorts(job), occupied_room(job)):
            for promise, window, epsilon, way in product(
                promised(cohort), cohort.windows, (1.0, 2.0, 4.0), WAYS
            ):
                read = reading(cohort, window, promise, way, epsilon)
                ones = [read.ones(job.rng(way, epsilon, draw)) for draw in range(args.draws)]
                for scope in scopes(cohort, read.windows):
                    found = recorded(read, promise.thetas, ones, scope, reach=args.reach)
                    cells = f"{cohort.name} | {promise.name} | {window} | {scope} | {epsilon:g} | {way}"
                    print(f"| {cells} | {_cells(found)} |", flush=True)
    else:
        print(f"| chain | noise | {errors} |\n|---|---:|---:|---:|---:|---:|---:|")
        rng = np.random.default_rng(args.seed)
        for chain in SIMULATED:
            truth = simulated_shares(chain, streams=200, windows=60, ticks=60, rng=rng)
            for noise in (0.01, 0.03, 0.1, 0.3, 1.0, 5.0):
                seen = truth + noise * rng.standard_normal(truth.shape)
                shares = Shares(truth, seen, np.full(truth.shape, noise**2))
                priors = [prior_of(chain.theta, 60)] * len(truth)
                found = compared(shares, priors, average=float(truth.mean()))
                print(f"| {chain.name} | {noise:g} | {_cells(found)} |", flush=True)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


def _cells(found: Compared) -> str:
    errors = (found.raw, found.average, found.so_far, found.smoothed)
    return " | ".join([*(f"{100 * error:.3g}" for error in errors), f"{found.coverage:.1%}"])


if __name__ == "__main__":
    sys.exit(main())
