"""The noise of every method relative to the lower bound for Laplace histograms, on every real chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from hushmq.evaluation.recordings import binned, fitted, heart_rates, household, people, room, sleepers
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.evaluation.sections.compared_methods import DRAWN, NAMES, ratio, scale_of
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.quilt.markov_chain import Chain

ABOUT = """The Laplace scale of each method divided by the limit of `hushmq.pufferfish.quilt.noise_lower_bound`: the
scale below which some count on an endless stream of this chain really loses more than ε to an adversary who knows the
chain and no state. 1 is perfect. GroupDP grows with the stream and has no answer here; entry-DP, which ignores
correlation, is below the limit: what it promises is less. Chains are fitted at lag 1 to every recording there is."""

EPSILONS = (0.2, 0.5, 1.0, 2.0, 5.0)
METHODS = ("gk16", "mqm-approx", "mqm-exact", "tilted-quilt")


@dataclass(frozen=True, slots=True)
class LowerBoundRatios:
    """One chain and ε: the lower bound, and the scale of each method."""

    chain: str
    k: int
    epsilon: float
    limit: float
    scales: dict[str, float | None]

    def over(self, method: str) -> float | None:
        """The method's scale divided by the lower bound."""
        one = self.scales[method]
        return None if one is None else one / self.limit


def chains(job: Job) -> dict[str, Chain]:
    """Every real chain; in a quick run one of each kind, without the largest."""
    rates = heart_rates(job)
    nights = sleepers(job)
    kept = [one for one in nights if one.subject == "N10"] if job.quick else nights
    found = {f"heart rate {one.subject}, 2 states": fitted([one]) for one in kept}
    for subject in ("N10",) if job.quick else ("N5", "N10"):
        found[f"heart rate {subject}, 4 bins"] = fitted([binned(subject, rates[subject], 4)])
    found["activity, 4 states"] = fitted(people(job))
    found["occupancy, 2 states"] = fitted([room(job)])
    if not job.quick:
        found["power, 51 levels"] = fitted([household(job)])
    return found


def run(job: Job) -> Iterator[Item]:
    listed = chains(job)
    points = []
    for place, (name, chain) in enumerate(listed.items()):
        for number, epsilon in enumerate(EPSILONS):
            job.progress((place + number / len(EPSILONS)) / len(listed), f"{name}, ε = {epsilon:g}")
            least = scale_of("limit", [chain], None, epsilon)
            if least is None:
                raise RuntimeError(f"{name} has no lower bound")
            scales = {method: scale_of(method, [chain], None, epsilon) for method in METHODS}
            points.append(LowerBoundRatios(name, chain.k, epsilon, least, scales))
    rows: list[list[Cell]] = [
        [
            point.chain,
            point.epsilon,
            point.limit,
            *(point.over(method) for method in METHODS),
            ratio(1 / point.epsilon, point.limit),
        ]
        for point in points
    ]
    names = [NAMES[method] for method in METHODS]
    yield Table(
        "ratios",
        "Laplace scale over the limit",
        ("chain", "ε", "limit", *names, "entry-DP"),
        rows,
    )
    yield Table(
        "summary",
        "Laplace scale over the limit, ε = 1",
        ("chain", "limit", *names),
        _at_one(points),
        main=True,
    )
    yield Picture("ratios", _figure(points), main=True)
    yield from findings(points)


def _at_one(points: Sequence[LowerBoundRatios]) -> list[list[Cell]]:
    return [
        [point.chain, point.limit, *(point.over(method) for method in METHODS)]
        for point in points
        if point.epsilon == 1.0
    ]


def _figure(points: Sequence[LowerBoundRatios]) -> Figure:
    """The geometric mean and the extremes over chains of each method, over ε."""
    curves = []
    for method in DRAWN:
        spread = [
            [
                over
                for point in points
                if point.epsilon == epsilon and (over := point.over(method)) is not None
            ]
            for epsilon in EPSILONS
        ]
        if all(spread):
            middle = [geometric_mean(values) for values in spread]
            low, high = [min(values) for values in spread], [max(values) for values in spread]
            curves.append(Curve(NAMES[method], EPSILONS, middle, dots=True, low=low, high=high))
    curves.append(Curve("the limit", EPSILONS, [1.0] * len(EPSILONS), reference=True))
    return Figure(
        "Noise over the limit, on all real chains",
        [Panel("geometric mean, and from least to most", "ε", "scale / limit", curves, logarithmic="xy")],
    )


def findings(points: Sequence[LowerBoundRatios]) -> Iterator[Item]:
    """Findings on the distance to the lower bound and to the other methods."""
    ours = [(point.over("tilted-quilt") or 0.0, point) for point in points]
    exact = [(point.scales["mqm-exact"] or 0.0) / (point.scales["tilted-quilt"] or 1.0) for point in points]
    two = [over for over, point in ours if point.k == 2]
    yield Finding(
        f"With two states the tilted quilt is at the limit (at most {max(two) - 1:.1e} above it): no method can do "
        "better.",
        kind="leads",
    )
    yield Finding(
        f"MQMExact needs {min(exact):.2f} to {max(exact):.2f} times the noise of the tilted quilt.",
        kind="leads",
    )
    worst, at = max(ours, key=lambda one: one[0])
    yield Finding(
        f"With more states a gap is left: up to {worst - 1:.1%} above the limit ({at.chain}, ε = {at.epsilon:g}). "
        "Either the bound or the limit is loose there; we do not know which.",
        kind="loses",
    )
    if all(point.scales["gk16"] is None for point in points):
        yield Finding("GK16 applies to none of these chains.")
