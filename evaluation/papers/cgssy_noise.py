"""CGSSY Figures 1 and 3: the noise with a loss of at most ε."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.explain.figure import Curve, Figure, LabelledPoint, Panel
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss, optimal_noise
from hushmq.pufferfish.papers import cgssy
from hushmq.pufferfish.papers import zhao_reduction as zhao
from hushmq.pufferfish.quilt.markov_chain import Chain

ABOUT = """CGSSY's Figure 1 (q = .2, r = .35) and Figure 3 (θ = .35, n = 30), from formulas alone. The noise
flips a 0 with probability ρ0 and a 1 with ρ1. What they call the feasible region is bounded by two straight
lines, which we have in closed form; we add the same for the informed adversary, who also knows true states at
other instants and against whom their noise does not hold (section `informed`)."""

REGION = (0.2, 0.35)
EPSILONS = (0.5, 2.0)
THETA = 0.35
LENGTH = 30


def run(job: Job) -> Iterator[Item]:
    job.progress(0.0, "Figure 1")
    yield from _figure_1(40 if job.quick else 120)
    job.progress(0.5, "Figure 3")
    yield from _figure_3(12 if job.quick else 60)


def _figure_1(points: int) -> Iterator[Item]:
    q, r = REGION
    theta = BinaryTheta.point(q, r)
    panels, rows = [], list[list[Cell]]()
    for epsilon in EPSILONS:
        tau0, tau1 = largest_tilts(theta, epsilon, "prior")
        across = [i / points for i in range(points + 1)]
        first = [(1 - rho0) * math.exp(-tau0) for rho0 in across]
        second = [1 - rho0 * math.exp(tau1) for rho0 in across]
        border = [max(pair) for pair in zip(first, second, strict=True)]
        whole = [1 - rho0 for rho0 in across]
        curves = [
            Curve("adversary knows no state (feasible: shaded)", across, border, low=border, high=whole),
            Curve("informed adversary", across, _border(theta, epsilon, across)),
            Curve("1−ρ0 = M0·ρ1", across, first, reference=True),
            Curve(
                "1−ρ1 = M1·ρ0",
                [x for x, y in zip(across, second, strict=True) if y >= 0],
                [y for y in second if y >= 0],
                reference=True,
            ),
        ]
        least = cgssy.corollary_1(q, r, epsilon)
        settings: list[tuple[str, BinaryNoise, Adversary]] = [
            ("CGSSY Corollary 1: fewest flips", least, "prior"),
            ("most signal, adversary knows no state", optimal_noise(theta, epsilon, "prior"), "prior"),
            ("most signal, informed adversary (ours)", optimal_noise(theta, epsilon), "informed"),
        ]
        for name, noise, kind in settings:
            reached = loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=kind)
            flips = (r * noise.rho0 + q * noise.rho1) / (q + r)
            signal = 1 - noise.rho0 - noise.rho1
            rows.append([epsilon, name, noise.rho0, noise.rho1, flips, signal, reached])
        ours = settings[2][1]
        marks = [
            LabelledPoint("ours", ours.rho0, ours.rho1),
            LabelledPoint("fewest flips", least.rho0, least.rho1),
        ]
        panels.append(
            Panel(f"ε = {epsilon:g}", "ρ0, a 0 is sent as 1", "ρ1, a 1 is sent as 0", curves, marks)
        )
    yield Picture(
        "figure-1", Figure("CGSSY Figure 1: noise that keeps ε, q = .2, r = .35", panels), main=True
    )
    columns = ("ε", "noise", "ρ0", "ρ1", "share flipped", "signal 1−ρ0−ρ1", "loss")
    yield Table(
        "figure-1",
        "Noise on the border of the feasible region",
        columns,
        rows,
        "Loss to the adversary of the row.",
    )


def _border(theta: BinaryTheta, epsilon: float, across: list[float]) -> list[float]:
    """The smallest ρ1 for each ρ0 against the informed adversary: two straight lines as well."""
    tau0, tau1 = largest_tilts(theta, epsilon)
    return [max((1 - rho0) * math.exp(-tau0), 1 - rho0 * math.exp(tau1)) for rho0 in across]


def _figure_3(points: int) -> Iterator[Item]:
    chain = Chain([[1 - THETA, THETA], [THETA, 1 - THETA]])
    theta = BinaryTheta.point(THETA, THETA)
    epsilons = [6 * (i + 1) / points for i in range(points)]
    curves = {
        "Zhao et al.": [zhao.noise(chain, epsilon, LENGTH) for epsilon in epsilons],
        "CGSSY, approximate": [cgssy.corollary_2_noise(THETA, epsilon) for epsilon in epsilons],
        "CGSSY, exact": [cgssy.corollary_2_exact(THETA, epsilon) for epsilon in epsilons],
        "ours, informed adversary": [optimal_noise(theta, epsilon).rho0 for epsilon in epsilons],
        "plain DP": [1 / (1 + math.exp(epsilon)) for epsilon in epsilons],
    }
    drawn = [Curve(name, epsilons, rhos, reference=name == "plain DP") for name, rhos in curves.items()]
    panel = Panel("", "ε", "flipping probability ρ", drawn)
    yield Picture(
        "figure-3", Figure(f"CGSSY Figure 3: noise for ε, θ = {THETA:g}, n = {LENGTH}", [panel]), main=True
    )
    rows = [[epsilon, *values] for epsilon, *values in zip(epsilons, *curves.values(), strict=True)]
    yield Table("figure-3", "Noise for ε", ("ε", *curves), rows, "Lower is better, at the same promise.")
    at = min(range(points), key=lambda i: abs(epsilons[i] - 2))
    values = {name: rhos[at] for name, rhos in curves.items()}
    yield Finding(
        f"At θ = {THETA:g} and ε = {epsilons[at]:.3g}, Zhao et al. flip {values['Zhao et al.']:.1%} of the "
        f"samples, CGSSY's closed form {values['CGSSY, approximate']:.1%}, its exact inverse, which they do "
        f"not have, {values['CGSSY, exact']:.1%}."
    )
    more = max(
        ours / theirs - 1
        for ours, theirs in zip(curves["ours, informed adversary"], curves["CGSSY, exact"], strict=True)
    )
    yield Finding(
        f"Ours flips up to {more:.1%} more of the samples than CGSSY's exact noise in this range: the price "
        "of a promise that also holds against who knows true states.",
        kind="loses",
    )
