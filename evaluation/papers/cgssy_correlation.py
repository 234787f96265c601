"""CGSSY Figure 2: the gain of an attacker who knows the correlation, against plain randomized response."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from hushmq.evaluation.attackers import exact, forward_backward, single_bit
from hushmq.evaluation.attackers.hidden import Floats, Hidden
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.papers import cgssy

ABOUT = """CGSSY's Figure 2. A symmetric chain of 30 instants changes state with probability θ; every sample is
flipped as plain randomized response does for ε = 0.5, that is as if samples were independent. The single-bit
attacker takes the output for the state; the forward–backward attacker knows θ and weighs all 30 outputs, which
nobody can do better. Both guess the state at instant 15. "Exact" is over all 2³⁰ outputs; "drawn" is the
paper's experiment, databases and their sanitizations drawn with a seed, shaded two standard errors over
databases. Beside it, the same best attacker against our noise for ε = 0.5."""

EPSILON = 0.5
LENGTH = 30
ATTACKED = 14
"""The fifteenth instant, counted from 0."""


def run(job: Job) -> Iterator[Item]:
    rho = 1 / (1 + math.exp(EPSILON))
    plain = BinaryNoise(rho, rho)
    thetas = [0.01, 0.1, 0.3, 0.5] if job.quick else [0.005, *(round(0.025 * i, 3) for i in range(1, 21))]
    databases, times = (10, 100) if job.quick else (100, 1000)
    rows: list[list[Cell]] = []
    drawn: list[tuple[Floats, Floats]] = []
    for number, theta in enumerate(thetas):
        job.progress(number / len(thetas), f"θ = {theta:g}")
        hidden = Hidden(theta, theta, plain)
        found = simulated(job, hidden, databases, times)
        drawn.append(found)
        best = exact.attack(hidden, ATTACKED, LENGTH - ATTACKED - 1).success()
        ours = Hidden(theta, theta, optimal_noise(BinaryTheta.point(theta, theta), EPSILON))
        against_ours = exact.attack(ours, ATTACKED, LENGTH - ATTACKED - 1).success()
        real = loss(BinaryTheta.point(theta, theta), tau0=plain.tau0, tau1=plain.tau1, adversary="prior")
        measured = [float(each.mean()) for each in found]
        rows.append(
            [
                theta,
                single_bit.success(hidden),
                measured[0],
                best,
                measured[1],
                charged(best),
                real,
                against_ours,
            ]
        )
    columns = (
        "θ",
        "single bit, exact",
        "single bit, drawn",
        "forward–backward, exact",
        "forward–backward, drawn",
        "ε charged to it",
        "loss of plain DP, exact",
        "forward–backward against ours",
    )
    yield Table("figure-2", f"Success against randomized response at ε = {EPSILON:g}", columns, rows)
    yield _picture(thetas, rows, drawn)
    worst = rows[0]
    yield Finding(
        f"Plain randomized response at ε = {EPSILON:g} promises that nobody is right more often than "
        f"{cgssy.success(EPSILON):.1%}; at θ = {worst[0]:g} the attacker who knows the correlation is right "
        f"in {worst[3]:.1%} of cases, as if ε were {worst[5]:.2f}. The worst output gives away "
        f"{worst[6]:.2f} nats."
    )
    most = max(float(str(row[7])) for row in rows)
    yield Finding(
        f"Against our noise for ε = {EPSILON:g} the best attacker who knows the correlation is right in at most "
        f"{most:.1%} of cases, whatever θ is: never above the {cgssy.success(EPSILON):.1%} that were promised.",
        kind="leads",
    )


def simulated(job: Job, hidden: Hidden, databases: int, times: int) -> tuple[Floats, Floats]:
    """The share of correct guesses of both attackers on each database: the paper's experiment."""
    rng = job.rng("figure 2", hidden.q)
    states = hidden.paths(databases, LENGTH, rng)
    shares: tuple[list[float], list[float]] = ([], [])
    for path in states:
        outputs = hidden.sanitize(np.tile(path, (times, 1)), rng)
        truth = path[ATTACKED]
        shares[0].append(float((single_bit.guess(outputs)[:, ATTACKED] == truth).mean()))
        shares[1].append(float((forward_backward.guess(hidden, outputs)[:, ATTACKED] == truth).mean()))
    return np.array(shares[0]), np.array(shares[1])


def charged(success: float) -> float:
    """The ε at which the bound on success equals p: log p/(1−p)."""
    return math.log(success / (1 - success))


def _picture(thetas: list[float], rows: list[list[Cell]], drawn: list[tuple[Floats, Floats]]) -> Picture:
    single, best, ours = ([float(str(row[number])) for row in rows] for number in (1, 3, 7))
    bound, ends = cgssy.success(EPSILON), [thetas[0], thetas[-1]]
    curves = [
        Curve("single bit", thetas, single),
        Curve("forward–backward", thetas, best),
        Curve("forward–backward against ours", thetas, ours),
        Curve("what ε = 0.5 promises", ends, [bound, bound], reference=True),
    ]
    success = [_drawn(curves[0], [pair[0] for pair in drawn]), _drawn(curves[1], [pair[1] for pair in drawn])]
    cost = [
        Curve(curve.label, curve.x, [charged(p) for p in curve.y], reference=curve.reference)
        for curve in curves
    ]
    panels = [
        Panel(
            "how often the guess is right (dots: the paper's experiment)",
            "θ",
            "success",
            [*success, *curves[2:]],
            from_zero=False,
        ),
        Panel("the ε this would cost (exact)", "θ", "log p/(1−p)", cost),
    ]
    title = "CGSSY Figure 2: attackers against plain randomized response at ε = 0.5, n = 30"
    return Picture("figure-2", Figure(title, panels), main=True)


def _drawn(curve: Curve, shares: list[Floats]) -> Curve:
    """The curve with the simulated instead of the exact values."""
    means = [float(each.mean()) for each in shares]
    errors = [2 * float(each.std(ddof=1)) / math.sqrt(len(each)) for each in shares]
    low, high = ([m + sign * e for m, e in zip(means, errors, strict=True)] for sign in (-1, 1))
    return Curve(curve.label, curve.x, means, dots=True, low=low, high=high)
