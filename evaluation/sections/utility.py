"""Utility: the error of hourly and daily histograms, per device and per cohort, from the stream and from the device."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.recordings import Recording, fitted, household, people, sleepers
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.evaluation.sections.utility_categorical import histograms
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts, optimal_noise

ABOUT = """The mean absolute error of the share of ones in a window, in percentage points, on real recordings:
heart rate above its mean (eleven sleepers, an hour is 3,600 beats), standing or active (thirty people, minute
by minute), power above its mean (one household, minute by minute). Three ways to read at the same ε: the
operator reads the stream, sanitized at ε; the public reads releases worth ε made from a stream that is
sanitized at 2ε; the public reads releases worth ε made on the device from raw counts. All are for the default
adversary, who knows any other states, and hold for ever, however many windows there are. Θ is all eleven
sleepers' chains together for heart rate, and the one chain fitted to all people, or to the household,
otherwise. "No data" says the long-run average every time: what is not below it tells nothing. Estimates are
unbiased, and not cut to what is possible. A table in full has four states of activity, for the adversary who
knows no state."""

GOOD = 2.0
"""Percentage points."""
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RecordedCohort:
    """Devices with binary states, their Θ, and the lengths of their windows."""

    name: str
    devices: Sequence[Recording]
    theta: BinaryTheta
    windows: dict[str, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """For each window of each device: the device, the number of the window, its ticks and its ones."""

    device: Counts
    window: Counts
    ticks: Counts
    ones: Counts


def cohorts(job: Job) -> list[RecordedCohort]:
    """The recordings, as two states each."""
    nights, minutes, house = sleepers(job), people(job), household(job)
    feet = [
        Recording(one.subject, 2, [(piece >= 2).astype(np.int64) for piece in one.pieces], one.starts)
        for one in minutes
    ]
    mean = house.states().mean()
    power = Recording(
        "household", 2, [(piece >= mean).astype(np.int64) for piece in house.pieces], house.starts
    )
    hour, day = 60, 1440
    return [
        RecordedCohort(
            "heart rate",
            nights,
            hull([_fitted_theta([one]) for one in nights]),
            {"hour": 3600, "night": 1 << 20},
        ),
        RecordedCohort("activity", feet, _fitted_theta(feet), {"hour": hour, "day": day}),
        RecordedCohort("power", [power], _fitted_theta([power]), {"hour": hour, "day": day}),
    ]


def hull(thetas: Sequence[BinaryTheta]) -> BinaryTheta:
    """The smallest Θ that contains all."""
    whole = thetas[0]
    for theta in thetas[1:]:
        whole = whole.hull(theta)
    return whole


def _fitted_theta(recordings: Sequence[Recording]) -> BinaryTheta:
    P = fitted(recordings).transition
    return BinaryTheta.point(float(P[0, 1]), float(P[1, 0]))


def cut(devices: Sequence[Recording], size: int) -> Windows:
    """The windows of every device from its first tick on, without those that are less than half filled."""
    found = []
    for number, device in enumerate(devices):
        begin = device.starts[0]
        ticks = np.concatenate(
            [
                np.arange(len(piece)) + start - begin
                for piece, start in zip(device.pieces, device.starts, strict=True)
            ]
        )
        place, ones = ticks // size, device.states()
        counts = np.bincount(place), np.bincount(place, weights=ones).astype(np.int64)
        full = min(size, device.length)
        kept = np.flatnonzero(counts[0] >= full / 2)
        found.append((np.full(len(kept), number), kept, counts[0][kept], counts[1][kept]))
    return Windows(*(np.concatenate(column) for column in zip(*found, strict=True)))


Way = Callable[[Windows, BinaryTheta, float, np.random.Generator], NDArray[np.float64]]
"""An estimate of the ones in each window, from a seeded draw of the noise."""


def from_stream(
    windows: Windows, theta: BinaryTheta, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The operator's estimate from the stream, sanitized at ε, with the mean of the noise subtracted."""
    noise = optimal_noise(theta, epsilon)
    seen = rng.binomial(windows.ones, 1 - noise.rho1) + rng.binomial(windows.ticks - windows.ones, noise.rho0)
    return np.asarray((seen - noise.rho0 * windows.ticks) / (1 - noise.rho0 - noise.rho1), dtype=np.float64)


def from_stream_release(
    windows: Windows, theta: BinaryTheta, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The public's estimate from a noisy count of the stream sanitized at 2ε; the release is amplified to ε."""
    noise = optimal_noise(theta, 2 * epsilon)
    tilt = noise.release_tilt(min(largest_tilts(theta, epsilon)))
    drawn = discrete_laplace(tilt, len(windows.ticks), rng)
    signal = 1 - noise.rho0 - noise.rho1
    return from_stream(windows, theta, 2 * epsilon, rng) + drawn / signal


def from_device(
    windows: Windows, theta: BinaryTheta, epsilon: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """The estimate from a count to which the device adds discrete Laplace noise."""
    tilt = min(largest_tilts(theta, epsilon))
    return np.asarray(windows.ones + discrete_laplace(tilt, len(windows.ones), rng), dtype=np.float64)


def discrete_laplace(tilt: float, size: int, rng: np.random.Generator) -> Counts:
    """Noise with P(x) ∝ e^(−tilt·|x|): a difference of two geometric draws."""
    if tilt == np.inf:
        return np.zeros(size, dtype=np.int64)
    drawn = rng.geometric(-np.expm1(-tilt), (2, size))
    return np.asarray(drawn[0] - drawn[1], dtype=np.int64)


WAYS: dict[str, Way] = {
    "operator, stream at ε": from_stream,
    "release from the stream at 2ε": from_stream_release,
    "release from the device": from_device,
}
NO_DATA = "no data: the long-run average"


def per_device(windows: Windows, ones: NDArray[np.float64]) -> float:
    """The mean absolute error of a device's share of ones in a window, in percentage points."""
    return 100 * float(np.mean(np.abs(ones - windows.ones) / windows.ticks))


def per_cohort(windows: Windows, ones: NDArray[np.float64]) -> float:
    """The same for the share over all devices in their first window, their second, and so on."""
    off, ticks = (np.bincount(windows.window, weights=one) for one in (ones - windows.ones, windows.ticks))
    kept = ticks > 0
    return 100 * float(np.mean(np.abs(off[kept]) / ticks[kept]))


SCOPES = {"device": per_device, "cohort": per_cohort}


@dataclass(frozen=True, slots=True)
class UtilityResult:
    """The error of one estimator for one kind of window."""

    cohort: str
    window: str
    scope: str
    way: str
    epsilon: float
    error: float


def measured(job: Job, cohort: RecordedCohort, window: str, draws: int) -> Iterator[UtilityResult]:
    """The errors of every estimator, scope and ε."""
    windows = cut(cohort.devices, cohort.windows[window])
    average = windows.ticks * (windows.ones.sum() / windows.ticks.sum())
    # A single device is not a cohort, and for a single window the long-run average is exact.
    together = len(cohort.devices) > 1 and windows.window.max() > 0
    scopes = {name: score for name, score in SCOPES.items() if name == "device" or together}
    for epsilon in EPSILONS:
        for name, way in WAYS.items():
            rng = job.rng(cohort.name, window, name, epsilon)
            estimates = [way(windows, cohort.theta, epsilon, rng) for _ in range(draws)]
            for scope, score in scopes.items():
                error = float(np.mean([score(windows, ones) for ones in estimates]))
                yield UtilityResult(cohort.name, window, scope, name, epsilon, error)
        for scope, score in scopes.items():
            yield UtilityResult(cohort.name, window, scope, NO_DATA, epsilon, score(windows, average))


def run(job: Job) -> Iterator[Item]:
    draws = 2 if job.quick else 20
    points: list[UtilityResult] = []
    listed = [(cohort, window) for cohort in cohorts(job) for window in cohort.windows]
    for place, (cohort, window) in enumerate(listed):
        job.progress(place / len(listed), f"{cohort.name}, each {window}")
        points += measured(job, cohort, window, draws)
    rows: list[list[Cell]] = []
    for kind in dict.fromkeys((point.cohort, point.window, point.scope) for point in points):
        for epsilon in EPSILONS:
            by = {
                p.way: p.error
                for p in points
                if (p.cohort, p.window, p.scope) == kind and p.epsilon == epsilon
            }
            rows.append([*kind, epsilon, *by.values()])
    yield Table(
        "errors",
        "Mean absolute error of a window's share of ones, percentage points",
        ("recordings", "window", "of", "ε", *WAYS, NO_DATA),
        rows,
        note=f"Means over all windows and {draws} draws of the noise.",
    )
    chosen = [row for row in rows if row[3] in {1.0, 4.0}]
    columns = ("recordings", "window", "of", "ε", *WAYS, NO_DATA)
    title = "Mean absolute error of a window's share of ones, percentage points"
    yield Table("summary", title, columns, chosen, main=True)
    for name in dict.fromkeys(cohort.name for cohort, _ in listed):
        figure = _figure(name, [point for point in points if point.cohort == name])
        yield Picture(name.replace(" ", "-"), figure, main=name == "heart rate")
    yield from findings(points)
    yield from histograms(job, draws)


def _figure(name: str, points: Sequence[UtilityResult]) -> Figure:
    panels = []
    for window, scope in dict.fromkeys((point.window, point.scope) for point in points):
        curves = []
        for way in (*WAYS, NO_DATA):
            kept = [p for p in points if (p.window, p.scope, p.way) == (window, scope, way)]
            x, y = [p.epsilon for p in kept], [p.error for p in kept]
            curves.append(Curve(way, x, y, reference=way == NO_DATA, dots=way != NO_DATA))
        of = "one device" if scope == "device" else "all devices together"
        panels.append(
            Panel(f"each {window}, {of}", "ε", "error, percentage points", curves, logarithmic="xy")
        )
    return Figure(f"Error of histograms: {name}", panels)


def findings(points: Sequence[UtilityResult]) -> Iterator[Item]:
    """Findings at ε = 1: where the error is small, and where it is not."""
    at = {(p.cohort, p.window, p.scope, p.way): p.error for p in points if p.epsilon == 1.0}
    stream, _, device = WAYS
    hour = ("heart rate", "hour", "device")
    yield Finding(
        f"An hour of one sleeper's heart rate at ε = 1 comes with an error of {at[*hour, device]:.2g} points from the "
        f"device and {at[*hour, stream]:.3g} from the stream, {at[*hour, stream] / at[*hour, device]:.3g} times more.",
        kind="leads",
    )
    useless = [key[:3] for key in at if key[3] == device and at[key] >= at[*key[:3], NO_DATA]]
    poor = [key[:3] for key in at if key[3] == stream and at[key] >= at[*key[:3], NO_DATA]]
    kinds = {key[:3] for key in at}
    which = "every kind of window here" if len(poor) == len(kinds) else _listed(poor)
    many = math.ceil((at[*hour, stream] / GOOD) ** 2)
    yield Finding(
        f"At ε = 1 the stream tells less than the long-run average in {which}. The error falls as the root of the "
        f"number of devices: an hour of heart rate within {GOOD:g} points takes about {many} of them, or a larger ε, "
        "or releases from the device.",
        kind="loses",
    )
    if useless:
        yield Finding(
            f"Even releases from the device tell less than the long-run average at ε = 1 for {_listed(useless)}: the "
            "noise on a count is as large as the window.",
            kind="loses",
        )


def _listed(kinds: Sequence[tuple[str, ...]]) -> str:
    return ", ".join(f"{cohort} per {window} and {scope}" for cohort, window, scope in kinds)
