"""Utility: the error of hourly and daily shares, per device and per cohort, by what is promised and how it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.evaluation.sections.reading_ways import DEVICE, RELEASE, STREAM, WAYS, Promised, promised, reading
from hushmq.evaluation.sections.recorded_windows import RecordedCohort, Scope, cohorts, scopes
from hushmq.evaluation.sections.smoothed_shares import recorded
from hushmq.evaluation.sections.utility_categorical import histograms
from hushmq.explain.figure import Curve, Figure, Panel

ABOUT = """The root mean square error of the share of ones in a window, in percentage points, on real recordings:
heart rate above its mean (eleven sleepers, an hour is 3,600 beats), standing or active (thirty people, minute
by minute), power above its mean (one household, minute by minute). Three ways to read at the same ε: the
operator reads the stream, sanitized at ε; the public reads releases worth ε made from a stream that is
sanitized at 2ε; the public reads releases worth ε made on the device from raw counts. All hold for ever, however
many windows there are. "First order" is the chain of neighbouring ticks, against who knows any other states: of
heart rate a box of all eleven sleepers' chains, else one chain. It is not true of these recordings (see "Real data is
no first-order chain"). "Regimes" are chains with two hidden regimes, against who knows the chain: a list of all
eleven sleepers' chains, or of each sleeper its own. "Thinned" publishes every m-th tick only, the m with the least
error. "Smoothed" is the posterior share that a release carries beside the unbiased one. "No data" says the
long-run average every time: what is not below it tells nothing."""

EPSILONS = (1.0, 2.0, 4.0)
NO_DATA = "no data: the long-run average"
SMOOTHED = ("stream, smoothed", "release, smoothed", "from the device, smoothed")
REACH = 200
"""Windows of a stream that are smoothed, at most."""


@dataclass(frozen=True, slots=True)
class UtilityResult:
    """The errors of one way to read one kind of window, in percentage points, and the strides of the devices."""

    cohort: str
    promised: str
    window: str
    scope: Scope
    way: str
    epsilon: float
    strides: tuple[int, int]
    raw: float
    smoothed: float
    average: float
    coverage: float

    @property
    def kind(self) -> tuple[str, str, str, str, float]:
        """What is read, under which promise."""
        return self.cohort, self.promised, self.window, self.scope, self.epsilon


def measured(
    job: Job, cohort: RecordedCohort, window: str, promise: Promised, draws: int
) -> Iterator[UtilityResult]:
    """The errors of every way, scope and ε."""
    for epsilon in (2.0,) if job.quick else EPSILONS:
        for way in WAYS:
            read = reading(cohort, window, promise, way, epsilon, growth=4.0 if job.quick else 1.4)
            rng = job.rng(cohort.name, window, promise.name, way, epsilon)
            ones = [read.ones(rng) for _ in range(draws)]
            for scope in scopes(cohort, read.windows):
                found = recorded(read, promise.thetas, ones, scope, reach=REACH)
                yield UtilityResult(
                    cohort.name,
                    promise.name,
                    window,
                    scope,
                    way,
                    epsilon,
                    (min(read.strides), max(read.strides)),
                    100 * found.raw,
                    100 * found.smoothed,
                    100 * found.average,
                    found.coverage,
                )


def run(job: Job) -> Iterator[Item]:
    draws = 1 if job.quick else 4
    known = cohorts(job)
    if job.quick:
        known = [
            replace(one, devices=one.devices[:2], windows=dict([list(one.windows.items())[-1]]))
            for one in known
        ]
    points: list[UtilityResult] = []
    for place, cohort in enumerate(known):
        job.progress(place / len(known), f"regimes of {cohort.name}")
        for promise in promised(cohort, rounds=8 if job.quick else 60):
            for window in cohort.windows:
                job.progress(place / len(known), f"{cohort.name}, {promise.name}, each {window}")
                points += measured(job, cohort, window, promise, draws)
    columns = (
        *("recordings", "Θ", "window", "of", "ε", "stride"),
        *(column for way, name in zip(WAYS, SMOOTHED, strict=True) for column in (way, name)),
        NO_DATA,
    )
    rows = [_row(points, kind) for kind in dict.fromkeys(point.kind for point in points)]
    title = "Root mean square error of a window's share of ones, percentage points"
    note = f"Over all windows and {draws} draws of the noise; the stride is that of the operator's stream."
    yield Table("errors", title, columns, rows, note=note, main=True)
    yield Table(
        "intervals",
        "How often the 95% interval of the smoothed share holds",
        ("recordings", "Θ", "window", "of", "ε", *WAYS),
        [
            [*kind, *(point.coverage for point in points if point.kind == kind)]
            for kind in dict.fromkeys(point.kind for point in points)
        ],
    )
    if not job.quick:
        for name in dict.fromkeys(point.cohort for point in points):
            figure = _figure(name, [point for point in points if point.cohort == name])
            yield Picture(name.replace(" ", "-"), figure, main=name == "heart rate")
    yield from findings(points)
    yield from histograms(job, 2 if job.quick else 20)


def _row(points: Sequence[UtilityResult], kind: tuple[str, str, str, str, float]) -> list[Cell]:
    by = {point.way: point for point in points if point.kind == kind}
    low, high = by[STREAM].strides
    errors = [cell for way in WAYS for cell in (by[way].raw, by[way].smoothed)]
    return [*kind, f"{low}" if low == high else f"{low}–{high}", *errors, by[STREAM].average]


def _figure(name: str, points: Sequence[UtilityResult]) -> Figure:
    panels = []
    for window, scope in dict.fromkeys((point.window, point.scope) for point in points):
        curves = []
        for promise in dict.fromkeys(point.promised for point in points):
            kept = [
                p
                for p in points
                if (p.window, p.scope, p.promised, p.way) == (window, scope, promise, RELEASE)
            ]
            curves.append(Curve(promise, [p.epsilon for p in kept], [p.raw for p in kept], dots=True))
        curves.append(Curve(NO_DATA, [p.epsilon for p in kept], [p.average for p in kept], reference=True))
        of = "one device" if scope == "device" else "all devices together"
        panels.append(
            Panel(f"each {window}, {of}", "ε", "error, percentage points", curves, logarithmic="xy")
        )
    return Figure(f"Error of releases from the stream: {name}", panels)


def findings(points: Sequence[UtilityResult]) -> Iterator[Item]:
    """What thinning and regimes give, where nothing can be had, and what smoothing adds."""
    at = {(*point.kind, point.way): point for point in points}
    for epsilon in EPSILONS:
        hour = [
            at.get(("heart rate", name, "hour", "device", epsilon, STREAM))
            for name in ("first order, every tick", "first order, thinned", "each its own regimes, thinned")
        ]
        if all(hour):
            every, thinned, own = (one.raw for one in hour if one is not None)
            yield Finding(
                f"An hour of one sleeper's heart rate at ε = {epsilon:g}, from the operator's stream: {every:.3g} "
                f"points with every tick published, {thinned:.3g} thinned, {own:.3g} under a promise "
                "that is true of regimes.",
                kind="leads" if epsilon == 2.0 else "finding",
            )
    for promise in ("first order, thinned", "regimes, thinned"):
        for epsilon in EPSILONS:
            kept = [p for p in points if p.promised == promise and p.epsilon == epsilon]
            useless = [p for p in kept if p.raw >= p.average and p.way != DEVICE]
            if useless:
                yield Finding(
                    f"Nothing can be had from single windows of the stream at ε = {epsilon:g}, {promise}, in "
                    f"{len(useless)} of {sum(p.way != DEVICE for p in kept)} cases ({_listed(useless)}): what is "
                    "secret for an instant lasts as long as the window.",
                    kind="loses",
                )
    worse = [p for p in points if p.smoothed > 1.01 * p.average]
    low = [p for p in points if p.coverage < 0.93]
    yield Finding(
        f"Smoothed shares are worse than the long-run average by more than 1% in {len(worse)} of {len(points)} cases"
        f"{f' ({_listed(worse)})' if worse else ''}; their 95% interval holds less than 93% in {len(low)}, at "
        f"the least {min(p.coverage for p in points):.1%}.",
    )


def _listed(points: Sequence[UtilityResult]) -> str:
    return ", ".join(dict.fromkeys(f"{p.cohort} per {p.window} and {p.scope}" for p in points))
