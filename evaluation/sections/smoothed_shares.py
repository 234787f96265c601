"""The error of smoothed frequencies beside that of the raw ones and of the long-run average, and what intervals hold.

    python -m hushmq.evaluation.sections.smoothed_shares recorded|simulated

`recorded` takes the windows, the Θ and the three ways to read of `utility`; `simulated` chains whose law is known.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.recordings import fitted, room
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.sections.utility import WAYS, RecordedCohort, Windows, cohorts, cut
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts, optimal_noise
from hushmq.pufferfish.inference.share_filter import filtered_history
from hushmq.pufferfish.inference.share_prior import binary_rates, share_prior

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


def compared(
    truth: Floats, seen: Floats, variances: Floats, theta: BinaryTheta, *, ticks: int, devices: int = 1
) -> Compared:
    """Compare over all windows; rows are streams, columns windows, and a variance is infinite where there is none.

    The long-run average is that of all the truth together, which no reader knows; `so_far` is that of the releases.
    """
    _, rates = binary_rates((theta.q_low, theta.q_high), (theta.r_low, theta.r_high))
    prior = share_prior(rates, ticks=ticks, devices=devices)
    there = np.isfinite(variances)
    posteriors = filtered_history(seen, variances, [prior] * len(seen))
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

    average = np.full_like(truth, truth[there].mean())
    return Compared(error(seen), error(average), error(so_far), error(smoothed), float(held[there].mean()))


def noise_variance(way: str, theta: BinaryTheta, epsilon: float, ticks: Floats, draws: int) -> Floats:
    """The variance of the share that a way of `utility` gives, for `draws` devices that are added up."""
    if way == "release from the device":
        return draws * _laplace(min(largest_tilts(theta, epsilon))) / ticks**2
    noise = optimal_noise(theta, epsilon if way == "operator, stream at ε" else 2 * epsilon)
    signal = 1 - noise.rho0 - noise.rho1
    sampling = max(rho * (1 - rho) for rho in (noise.rho0, noise.rho1)) / (ticks * signal**2)
    if way == "operator, stream at ε":
        return np.asarray(sampling)
    tilt = noise.release_tilt(min(largest_tilts(theta, epsilon)))
    return np.asarray(sampling + draws * _laplace(tilt) / (ticks * signal) ** 2)


def _laplace(tilt: float) -> float:
    """The variance of discrete Laplace noise: 2p/(1−p)² with p = e^(−tilt)."""
    return float(2 * np.exp(-tilt) / np.expm1(-tilt) ** 2)


def recorded(
    cohort: RecordedCohort, window: str, epsilon: float, *, draws: int, seed: int
) -> Iterator[tuple[str, str, Compared]]:
    """By scope and way: the comparison on the windows of a recorded cohort."""
    windows = cut(cohort.devices, cohort.windows[window])
    length = int(np.median(windows.ticks))
    rng = np.random.default_rng(seed)
    together = len(cohort.devices) > 1 and windows.window.max() > 0
    for way, estimate in WAYS.items():
        ones = [estimate(windows, cohort.theta, epsilon, rng) for _ in range(draws)]
        for scope in ("device", "cohort") if together else ("device",):
            ticks, truth, seen = _rows(windows, ones, cohort=scope == "cohort")
            present = ticks > 0
            devices = _devices(windows) if scope == "cohort" else np.ones((1, 1))
            safe = np.where(present, ticks, 1)
            each = noise_variance(way, cohort.theta, epsilon, safe / devices, 1) / devices
            variances = np.where(present, np.broadcast_to(each, ticks.shape), np.inf)
            found = compared(truth, seen, variances, cohort.theta, ticks=length, devices=int(np.max(devices)))
            yield scope, way, found


def _devices(windows: Windows) -> Floats:
    return np.maximum(1, np.bincount(windows.window))[None, :].astype(np.float64)


def _rows(windows: Windows, ones: Sequence[Floats], *, cohort: bool) -> tuple[Floats, Floats, Floats]:
    """Ticks, true shares and seen shares; a row for each device, or one for the cohort, of every draw."""
    device = np.zeros_like(windows.device) if cohort else windows.device
    shape = (int(device.max()) + 1, int(windows.window.max()) + 1)
    place = device * shape[1] + windows.window

    def laid_out(values: NDArray[np.float64] | NDArray[np.int64]) -> Floats:
        flat = np.bincount(place, weights=values, minlength=shape[0] * shape[1])
        return np.asarray(flat.reshape(shape), dtype=np.float64)

    ticks = laid_out(windows.ticks)
    safe = np.maximum(ticks, 1)
    truth = np.tile(laid_out(windows.ones) / safe, (len(ones), 1))
    return np.tile(ticks, (len(ones), 1)), truth, np.concatenate([laid_out(one) / safe for one in ones])


def occupied_room(job: Job) -> RecordedCohort:
    """A room that is occupied or not, minute by minute: no prior weight was chosen by it."""
    minutes = room(job)
    days = np.cumsum([0, *(-(-len(piece) // DAY) for piece in minutes.pieces[:-1])])
    minutes = replace(minutes, starts=[int(day) * DAY for day in days])
    transition = fitted([minutes]).transition
    theta = BinaryTheta.point(float(transition[0, 1]), float(transition[1, 0]))
    return RecordedCohort("room", [minutes], theta, {"hour": 60, "day": DAY})


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
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the recordings")
    args = parser.parse_args(argv)
    started = time.monotonic()
    errors = "raw | long-run average | average of releases so far | smoothed | interval holds"
    if args.table == "recorded":
        print(
            f"| recordings | window | of | ε | way | {errors} |\n|---|---|---|---:|---|---:|---:|---:|---:|---:|"
        )
        job = Job("smoothed", False, args.seed, args.data, lambda _share, _step: None)
        for cohort in (*cohorts(job), occupied_room(job)):
            for window in cohort.windows:
                for epsilon in (1.0, 2.0, 4.0):
                    for scope, way, found in recorded(
                        cohort, window, epsilon, draws=args.draws, seed=args.seed
                    ):
                        print(
                            f"| {cohort.name} | {window} | {scope} | {epsilon:g} | {way} | {_cells(found)} |",
                            flush=True,
                        )
    else:
        print(f"| chain | noise | {errors} |\n|---|---:|---:|---:|---:|---:|---:|")
        rng = np.random.default_rng(args.seed)
        for chain in SIMULATED:
            truth = simulated_shares(chain, streams=200, windows=60, ticks=60, rng=rng)
            for noise in (0.01, 0.03, 0.1, 0.3, 1.0, 5.0):
                seen = truth + noise * rng.standard_normal(truth.shape)
                found = compared(truth, seen, np.full(truth.shape, noise**2), chain.theta, ticks=60)
                print(f"| {chain.name} | {noise:g} | {_cells(found)} |", flush=True)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


def _cells(found: Compared) -> str:
    errors = (found.raw, found.average, found.so_far, found.smoothed)
    return " | ".join([*(f"{100 * error:.3g}" for error in errors), f"{found.coverage:.1%}"])


if __name__ == "__main__":
    sys.exit(main())
