"""The loss over the flipping probability on a chain, and the pairs of probabilities with a loss of at most ε."""

from __future__ import annotations

import math

from hushmq.explain.figure import Curve, Figure, LabelledPoint, Panel
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.bisection import bisection

POINTS = 120
ADVERSARIES: tuple[Adversary, ...] = ("informed", "prior")


def loss_figure(q: float, r: float, epsilon: float | None) -> Figure:
    """A panel of the loss over ρ and, given an ε, a panel of the noise with at most this loss."""
    theta = BinaryTheta.point(q, r)
    panels = [_loss_panel(theta, epsilon)]
    if epsilon is not None:
        panels.append(_feasible_panel(theta, epsilon))
    return Figure(f"What noise buys on a chain with q = {q:g}, r = {r:g}", panels)


def _loss_panel(theta: BinaryTheta, epsilon: float | None) -> Panel:
    rhos = [0.5 * (i + 1) / POINTS for i in range(POINTS)]
    tilts = [math.log((1.0 - rho) / rho) for rho in rhos]
    curves = [
        Curve(
            f"{adversary} adversary",
            rhos,
            [loss(theta, tau0=tau, tau1=tau, adversary=adversary) for tau in tilts],
        )
        for adversary in ADVERSARIES
    ]
    curves.append(Curve("one sample alone", rhos, tilts, reference=True))
    if epsilon is not None:
        curves.append(Curve(f"ε = {epsilon:g}", [rhos[0], rhos[-1]], [epsilon, epsilon], reference=True))
    return Panel(
        title="Loss when 0 and 1 are flipped alike",
        x_label="flipping probability ρ",
        y_label="loss, nats",
        curves=curves,
    )


def _feasible_panel(theta: BinaryTheta, epsilon: float) -> Panel:
    """The smallest ρ1 with a loss of at most ε for every ρ0: for q+r ≤ 1 the two lines of docs/theory.md, Theorem 3."""
    curves, marks = [], []
    for adversary in ADVERSARIES:
        best = optimal_noise(theta, epsilon, adversary)
        inside = sorted({*(i / POINTS for i in range(1, POINTS)), best.rho0})
        least = [_least_rho1(theta, rho0, epsilon, adversary) for rho0 in inside]
        curves.append(Curve(f"least noise, {adversary}", [0.0, *inside, 1.0], [1.0, *least, 0.0]))
        marks.append(LabelledPoint(f"{adversary}: {best.rho0:.3f}, {best.rho1:.3f}", best.rho0, best.rho1))
    curves.append(Curve("says nothing", [0.0, 1.0], [1.0, 0.0], reference=True))
    return Panel(
        title=f"Noise that keeps ε = {epsilon:g}: between the lines",
        x_label="ρ0, a 0 is sent as 1",
        y_label="ρ1, a 1 is sent as 0",
        curves=curves,
        marks=marks,
    )


def _least_rho1(theta: BinaryTheta, rho0: float, epsilon: float, adversary: Adversary) -> float:
    """The smallest ρ1, by bisection: both tilts, and so the loss, fall as ρ1 rises towards 1−ρ0."""

    def loses_more(rho1: float) -> bool:
        noise = BinaryNoise(rho0, rho1)
        return loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=adversary) > epsilon

    _, rho1 = bisection(loses_more, 0.0, 1.0 - rho0, absolute=1e-6)
    return rho1
