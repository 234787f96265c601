"""WSC section 5 and Figure 2: five states, of which only π_min and the eigengap are known."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hushmq.commands.chain_file import Chains
from hushmq.commands.scale_command import METHODS
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.evaluation.sections.compared_methods import simulated_error
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.markov_quilt import Mixing, approx

ABOUT = """A reversible chain of five states with π_min ≥ .05 and eigengap .1 (WSC's, half of SWC's) is drawn
once. The mechanism knows only estimates of both, at or below the truth, and the length T; each varies in one
panel, as in WSC's Figure 2. The values along the lines are lost from the paper; these are ours. For
comparison: what the tilted quilt needs, which must know the chain."""

K = 5
PI, GAP, LENGTH = 0.05, 0.1, 5000
VARIED = {
    "π_min": [(pi, GAP, LENGTH) for pi in (0.05, 0.01, 0.002)],
    "eigengap": [(PI, gap, LENGTH) for gap in (0.1, 0.05, 0.025)],
    "T": [(PI, GAP, length) for length in (2000, 5000, 20_000)],
}


def drawn(rng: np.random.Generator) -> Chain:
    """A reversible chain with π_min ≥ PI and second eigenvalue exactly 1 − GAP."""
    while True:
        flow = rng.gamma(0.5, size=(K, K))
        flow += flow.T
        pi = flow.sum(axis=1) / flow.sum()
        P = flow / flow.sum(axis=1, keepdims=True)
        second = np.sort(np.linalg.eigvals(P).real)[-2]
        # The lazy chain (1−c)·I + c·P has the eigenvalues 1 − c·(1−λ), all positive if c ≤ 1/2.
        lazy = GAP / (1 - second)
        if pi.min() >= PI and lazy <= 0.5:
            return Chain((1 - lazy) * np.eye(K) + lazy * P)


def scale(pi: float, gap: float, length: int, epsilon: float) -> float:
    """WSC's Fast algorithm; `Mixing` takes SWC's gap, twice WSC's."""
    return approx(Mixing(pi, 2 * gap), length, epsilon).scale


def run(job: Job) -> Iterator[Item]:
    chain = drawn(job.rng("chain"))
    epsilons = [float(one) for one in np.geomspace(0.1, 10.0, 3 if job.quick else 13)]
    draws = 20 if job.quick else 100
    rows: list[list[Cell]] = []
    panels = []
    known = [2 * K * METHODS["tilted-quilt"](Chains([chain], None), one).scale / LENGTH for one in epsilons]
    for number, (name, settings) in enumerate(VARIED.items()):
        job.progress(number / len(VARIED), name)
        curves = []
        for pi, gap, length in settings:
            errors = []
            for epsilon in epsilons:
                s = scale(pi, gap, length, epsilon)
                rng = job.rng(name, pi, gap, length, epsilon)
                error = simulated_error(s, lipschitz=2 / length, bins=K, draws=draws, rng=rng)
                errors.append(2 * K * s / length)
                rows.append([name, pi, gap, length, epsilon, s, error])
            value = {"π_min": pi, "eigengap": gap, "T": length}[name]
            curves.append(Curve(f"{name} = {value:g}", epsilons, errors))
        if name != "T":
            curves.append(Curve("tilted quilt, chain known", epsilons, known, reference=True))
        panels.append(Panel(f"{name} varies", "ε", "expected L1 error", curves, logarithmic="xy"))
    yield Table(
        "errors",
        "Mean L1 error of the histogram, five states",
        ("varied", "π_min", "eigengap", "T", "ε", "scale", "error"),
        rows,
        note=f"Means over {draws} draws.",
    )
    yield Picture("errors", Figure("Error of histograms when only the mixing is known", panels))
    middle = len(epsilons) // 2
    times = 2 * K * scale(PI, GAP, LENGTH, epsilons[middle]) / LENGTH / known[middle]
    yield Finding(
        f"At ε = {epsilons[middle]:.2g} knowing only π_min = {PI:g} and eigengap {GAP:g} costs {times:.3g} times the "
        "noise of knowing the chain."
    )
