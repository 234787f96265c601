"""SWC Table 2: the computation time of each method's scale."""

from __future__ import annotations

import time
from collections.abc import Iterator

from hushmq.evaluation.papers.swc_synthetic import T, alphas, grid
from hushmq.evaluation.papers.swc_synthetic import scale as synthetic_scale
from hushmq.evaluation.recordings import fitted, household, people
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Table
from hushmq.evaluation.sections.compared_methods import NAMES, timed_scale

ABOUT = """Seconds of processor time to find the Laplace scale at ε = 1, with the columns of SWC's Table 2.
Synthetic is the mean over the classes of chains of the section `synthetic`."""

EPSILON = 1.0


def run(job: Job) -> Iterator[Item]:
    group, house = people(job), household(job)
    tasks = {
        "activity": (fitted(group), max(one.longest for one in group)),
        "power": (fitted([house]), house.longest),
    }
    listed = alphas(job.quick)
    classes = [(alpha, grid(alpha, 3 if job.quick else 5)) for alpha in listed]
    rows: list[list[Cell]] = []
    for place, (method, name) in enumerate(NAMES.items()):
        job.progress(place / len(NAMES), name)
        begin = time.process_time()
        for alpha, chains in classes:
            synthetic_scale(method, alpha, EPSILON, chains)
        row: list[Cell] = [name, (time.process_time() - begin) / len(classes)]
        for chain, length in tasks.values():
            found, took = timed_scale(method, [chain], length, EPSILON)
            row.append(None if found is None else took)
        rows.append(row)
    yield Table(
        "seconds",
        "Seconds to find the scale, ε = 1",
        ("method", "synthetic", *tasks),
        rows,
        note=f"Synthetic: T = {T}. On this machine and these data. SWC report, on a desktop of 2012 and other data, "
        "MQMApprox .0028 to .0064 s and MQMExact .63 to 1.5 s for activity, .057 s and 282 s for power. `make bench` "
        "times their algorithms as they are written down beside ours.",
        main=True,
    )
    by = {str(row[0]): row for row in rows}
    ours, exact = by["tilted quilt"], by["MQMExact"]
    yield Finding(
        f"The tilted quilt takes {ours[2]:.2g} s for activity and {ours[3]:.2g} s for power, our MQMExact "
        f"{exact[2]:.2g} s and {exact[3]:.2g} s."
    )
    if isinstance(ours[3], float) and isinstance(exact[3], float) and ours[3] > exact[3]:
        yield Finding(
            f"With 51 states the tilted quilt takes {ours[3] / exact[3]:.2g} times as long as MQMExact.",
            kind="loses",
        )
