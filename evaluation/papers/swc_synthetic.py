"""SWC section 5.2 and Figure 4 (upper row): binary chains of length 100, classes of chains, all starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.evaluation.sections.compared_methods import DRAWN, NAMES, scale_of
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.markov_chain import Chain

ABOUT = """Binary chains of T = 100 instants. Θ holds every chain with both changes of state likely by α to
1−α, and every start. The query is the share of ones; the error is the mean of its absolute error over data
drawn from Θ. GroupDP, GK16, MQMApprox and MQMExact are SWC's Figure 4 (upper row). Θ is a continuum: GK16 and
MQMExact take the worst chain of a grid that includes its corners, as SWC did; MQMApprox and the tilted quilt
cover all of it. The tilted quilt is here for the adversary who knows any other states, which covers every start,
and for kernels that change in time within Θ; the others promise nothing of either. The limit is what no method
can pass."""

T = 100
EPSILONS = (0.2, 1.0, 5.0)
LIMIT = "limit"


def alphas(quick: bool) -> list[float]:
    """The values of α, from .1 to .4."""
    return [0.1, 0.25, 0.4] if quick else [round(0.1 + 0.025 * i, 3) for i in range(13)]


def binary(q: float, r: float) -> Chain:
    """The chain that changes from 0 with probability q and from 1 with r."""
    return Chain([[1 - q, q], [r, 1 - r]])


def grid(alpha: float, size: int) -> list[Chain]:
    """A grid of chains of Θ that includes its corners."""
    sides = np.linspace(alpha, 1 - alpha, size)
    return [binary(float(q), float(r)) for q, r in product(sides, sides)]


def tilted(alpha: float, epsilon: float) -> float:
    """Our scale 1/τ for all of Θ, every initial law, known states and changing kernels (Theorem 17)."""
    return 1 / min(largest_tilts(BinaryTheta(alpha, 1 - alpha, alpha, 1 - alpha), epsilon))


def scale(method: str, alpha: float, epsilon: float, chains: Sequence[Chain]) -> float | None:
    """The scale of a method for Θ; None if it has none."""
    if method == "mqm-approx":
        # π_min is least at the corner (α, 1−α), and |λ| = |1−q−r| largest at (α, α): SWC Lemma C.4.
        return mqm.approx(mqm.Mixing(alpha, 4 * alpha), T, epsilon).scale
    if method == "mqm-exact":
        return mqm.exact(chains, T, epsilon, any_initial=True).scale
    if method == "tilted-quilt":
        return tilted(alpha, epsilon)
    return scale_of(method, chains, T, epsilon)


@dataclass(frozen=True, slots=True)
class SyntheticResult:
    """One Θ and ε: the scale and the error of each method."""

    epsilon: float
    alpha: float
    scales: dict[str, float | None]
    errors: dict[str, float | None]

    def row(self) -> list[Cell]:
        """As a row of the table."""
        return [self.epsilon, self.alpha, *self.errors.values(), *self.scales.values()]


def simulated(job: Job, alpha: float, epsilon: float, *, draws: int, size: int) -> SyntheticResult:
    """The mean absolute error of the share of ones, released by each method, on data sampled from Θ."""
    chains = grid(alpha, size)
    scales = {method: scale(method, alpha, epsilon, chains) for method in (*NAMES, LIMIT)}
    rng = job.rng(alpha, epsilon)
    off: dict[str, list[float]] = {method: [] for method in NAMES}
    for _ in range(draws):
        q, r = rng.uniform(alpha, 1 - alpha, 2)
        first = rng.random()
        exact = Chain([[1 - q, q], [r, 1 - r]], [first, 1 - first]).sample(T, rng).mean()
        for method, found in off.items():
            if (one := scales[method]) is not None:
                found.append(abs(exact + rng.laplace(0.0, one / T) - exact))
    errors = {method: float(np.mean(found)) if found else None for method, found in off.items()}
    return SyntheticResult(epsilon, alpha, scales, errors)


def run(job: Job) -> Iterator[Item]:
    draws, size = (50, 3) if job.quick else (500, 5)
    listed = list(product(EPSILONS, alphas(job.quick)))
    points = []
    for place, (epsilon, alpha) in enumerate(listed):
        job.progress(place / len(listed), f"ε = {epsilon:g}, α = {alpha:g}")
        points.append(simulated(job, alpha, epsilon, draws=draws, size=size))
    names = list(NAMES.values())
    yield Table(
        "errors",
        "Mean error of the share of ones, and the Laplace scale (for a query that one instant changes by 1)",
        ["ε", "α", *(f"{name}: error" for name in names), *(f"{name}: scale" for name in (*names, LIMIT))],
        [point.row() for point in points],
        note=f"{draws} data sets for each α. No answer: the spectral norm of GK16's influence matrix is 1 or more.",
    )
    panels = [
        _panel(epsilon, [point for point in points if point.epsilon == epsilon]) for epsilon in EPSILONS
    ]
    yield Picture("errors", Figure("Error of the share of ones, T = 100", panels), main=True)
    yield from findings(points)


def _panel(epsilon: float, points: Sequence[SyntheticResult]) -> Panel:
    """Expected errors, scale/T, as lines; GroupDP is far above and omitted, as in the paper."""
    curves = []
    for method in (*DRAWN, LIMIT):
        kept = [(point.alpha, one / T) for point in points if (one := point.scales[method]) is not None]
        if kept:
            x, y = zip(*kept, strict=True)
            curves.append(Curve(NAMES.get(method, method), x, y, reference=method == LIMIT, dots=len(x) == 1))
    return Panel(f"ε = {epsilon:g}", "α", "expected error", curves, logarithmic="y")


def findings(points: Sequence[SyntheticResult]) -> Iterator[Item]:
    """Findings: where the tilted quilt leads, and where it does not."""
    gains, excess = [], []
    for point in points:
        known = {method: one for method, one in point.scales.items() if one is not None}
        ours, least = known.pop("tilted-quilt"), known.pop(LIMIT)
        gains.append((min(known.values()) / ours, point.epsilon, point.alpha))
        excess.append((ours / least, point.epsilon, point.alpha))
    better = [gain for gain, _, _ in gains if gain >= 1]
    yield Finding(
        f"The tilted quilt needs up to {max(better):.3g} times less noise than the best of the others, and no more in "
        f"{len(better)} of {len(gains)} cases of α and ε. It promises more.",
        kind="leads",
    )
    least, epsilon, alpha = min(gains)
    if least < 1:
        yield Finding(
            f"In {len(gains) - len(better)} of {len(gains)} cases another needs less noise, by up to {1 - least:.1%} "
            f"(ε = {epsilon:g}, α = {alpha:g}): for every start and every chain of the class at once, against who "
            "knows any other states, ours is not always the least.",
            kind="loses",
        )
    worst, epsilon, alpha = max(excess)
    yield Finding(
        f"The tilted quilt needs up to {worst:.3g} times the limit (ε = {epsilon:g}, α = {alpha:g}): the limit is for "
        "who knows no state, ours hides from who knows any others.",
        kind="loses",
    )
