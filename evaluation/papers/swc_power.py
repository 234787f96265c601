"""SWC section 5.3.2 and Table 3: a household's power in 51 levels."""

from __future__ import annotations

from collections.abc import Iterator

from hushmq.evaluation.recordings import LEVELS, fitted, household
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Table
from hushmq.evaluation.sections.compared_methods import NAMES, scale_of, simulated_error

ABOUT = """The relative frequency of 51 levels of 200 W in two million minutes of one household (UCI, in place
of SWC's household in Vancouver). Minutes that were filled in cut the chain; it is fitted to the rest and
starts stationary."""


def run(job: Job) -> Iterator[Item]:
    house = household(job)
    chain = fitted([house])
    draws = 20 if job.quick else 500
    listed = (1.0,) if job.quick else (0.2, 1.0, 5.0)
    rows: list[list[Cell]] = []
    for place, (method, name) in enumerate(NAMES.items()):
        row: list[Cell] = [name]
        for number, epsilon in enumerate(listed):
            job.progress((place + number / len(listed)) / len(NAMES), f"{name}, ε = {epsilon:g}")
            scale = scale_of(method, [chain], house.longest, epsilon)
            rng = job.rng(method, epsilon)
            row.append(simulated_error(scale, lipschitz=2 / house.length, bins=LEVELS, draws=draws, rng=rng))
        rows.append(row)
    yield Table(
        "errors",
        "L1 error of the histogram of power, 51 levels",
        ("method", *(f"ε = {epsilon:g}" for epsilon in listed)),
        rows,
        note=f"Means over {draws} draws; {house.length:,} minutes, the longest piece {house.longest:,}. SWC report for "
        "their household: GroupDP 516, 103, 19.9; MQMApprox .337, .0614, .0113; MQMExact .130, .0188, .0022.",
        main=True,
    )
    at = {row[0]: row[listed.index(1.0) + 1] for row in rows}
    ours, exact = at["tilted quilt"], at["MQMExact"]
    if isinstance(ours, float) and isinstance(exact, float):
        yield Finding(
            f"Power at ε = 1: the tilted quilt's error is {ours:.3g}, {exact / ours:.2g} times less than MQMExact's "
            f"{exact:.3g}; per level {ours / LEVELS:.2%} of the time.",
            kind="leads",
        )
