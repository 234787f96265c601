"""SWC section 5.3.1 and Table 1: histograms of activity, aggregated and per person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hushmq.evaluation.recordings import Recording, fitted, people
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.evaluation.sections.compared_methods import DRAWN, NAMES, scale_of, simulated_error
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.quilt.markov_chain import Chain

ABOUT = """Relative frequencies of lying, sitting, standing and being active, minute by minute, of thirty
people (ExtraSensory, in place of SWC's cyclists and women, which cannot be had). One chain is fitted to all
of them, and starts stationary; gaps cut it into pieces. Aggregate: one histogram of all minutes of all
people. Individual: one for each person; the error is the mean over people. DP hides a whole person among the
others, and has no individual task."""

BINS = 4
EPSILONS = (0.2, 1.0, 5.0)
STATES = ("lying", "sitting", "standing", "active")


def run(job: Job) -> Iterator[Item]:
    group = people(job)
    chain = fitted(group)
    draws = 20 if job.quick else 500
    alone = [max(group, key=lambda one: one.longest)] if job.quick else group
    listed = (1.0,) if job.quick else EPSILONS
    total, longest = sum(one.length for one in group), max(one.longest for one in group)
    rows: list[list[Cell]] = []
    for number, epsilon in enumerate(listed):
        dp = 2 * max(one.length for one in group) / total / epsilon
        rng = job.rng("dp", epsilon)
        error = simulated_error(dp, lipschitz=1.0, bins=BINS, draws=draws, rng=rng)
        rows.append([epsilon, "DP (a person)", error, None])
        for place, (method, name) in enumerate(NAMES.items()):
            job.progress((number + place / len(NAMES)) / len(listed), f"{name}, ε = {epsilon:g}")
            rng = job.rng(method, epsilon)
            scale = scale_of(method, [chain], longest, epsilon)
            together = simulated_error(scale, lipschitz=2 / total, bins=BINS, draws=draws, rng=rng)
            apart = None if scale is None else individual(method, chain, alone, epsilon, draws, rng)
            rows.append([epsilon, name, together, apart])
    yield Table(
        "errors",
        "L1 error of histograms of activity",
        ("ε", "method", "aggregate", "individual"),
        rows,
        note=f"Means over {draws} draws. {len(group)} people, {total:,} minutes, the longest piece {longest:,}. GK16 "
        "has no answer. SWC report for their three groups at ε = 1: MQMExact .0033 to .0098 together and .13 to .41 "
        "one by one, GroupDP .046 to .11 and 1.1 to 2.3, DP .29 to .87.",
        main=True,
    )
    if not job.quick:
        yield Picture("errors", _figure(rows), main=False)
    yield _example(job, chain, group)
    yield from findings(rows)


def individual(
    method: str,
    chain: Chain,
    group: Sequence[Recording],
    epsilon: float,
    draws: int,
    rng: np.random.Generator,
) -> float:
    """The mean over people of the error of one person's histogram; scales depend on each person's longest piece."""
    scales = {length: scale_of(method, [chain], length, epsilon) for length in {one.longest for one in group}}
    errors = [
        simulated_error(scales[one.longest], lipschitz=2 / one.length, bins=BINS, draws=draws, rng=rng)
        for one in group
    ]
    return float(np.mean([error for error in errors if error is not None]))


def _figure(rows: Sequence[Sequence[Cell]]) -> Figure:
    panels = []
    for column, title in ((2, "aggregate"), (3, "individual, mean over people")):
        curves = []
        for name in [NAMES[method] for method in (*DRAWN, "group")]:
            points = [(row[0], row[column]) for row in rows if row[1] == name]
            kept = [(x, y) for x, y in points if isinstance(x, float) and isinstance(y, float)]
            if kept:
                x, y = zip(*kept, strict=True)
                curves.append(Curve(name, x, y, reference=name == "GroupDP", dots=True))
        panels.append(Panel(title, "ε", "L1 error of the histogram", curves, logarithmic="xy"))
    return Figure("Error of histograms of activity", panels)


def _example(job: Job, chain: Chain, group: Sequence[Recording]) -> Table:
    """One private histogram of each method beside the exact one (SWC Figure 4, lower row)."""
    counts = np.bincount(np.concatenate([one.states() for one in group]), minlength=BINS)
    total, longest = int(counts.sum()), max(one.longest for one in group)
    rows: list[list[Cell]] = [["exact", *(counts / total).tolist()]]
    for method, name in NAMES.items():
        scale = scale_of(method, [chain], longest, 1.0)
        if scale is not None:
            noise = job.rng("example", method).laplace(0.0, 2 * scale / total, BINS)
            rows.append([name, *(counts / total + noise).tolist()])
    return Table(
        "example", "One private histogram of all minutes by each method, ε = 1", ("method", *STATES), rows
    )


def findings(rows: Sequence[Sequence[Cell]]) -> Iterator[Item]:
    """Findings at ε = 1."""
    at = {row[1]: row for row in rows if row[0] == 1.0}
    ours, mqm, dp = at["tilted quilt"], at["MQMExact"], at["DP (a person)"]
    values = [value for row in (ours, mqm) for value in row[2:] if isinstance(value, float)]
    yield Finding(
        f"Activity at ε = 1: an error of {values[0]:.3g} together and {values[1]:.3g} one by one with the tilted "
        f"quilt, {values[2]:.3g} and {values[3]:.3g} with MQMExact, {dp[2]:.3g} together with plain DP of a person.",
        kind="leads",
    )
    if values[1] > 0.1:
        yield Finding(
            f"One person's histogram of a few days at one sample a minute stays poor at ε = 1: an L1 error of "
            f"{values[1]:.2g} in a histogram that sums to 1. What people do lasts long: one secret minute weighs many.",
            kind="loses",
        )
