"""Attackers who know some true states, against CGSSY's noise and ours: where Theorem 2 of CGSSY fails, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hushmq.evaluation.attackers import exact
from hushmq.evaluation.attackers.exact import Known
from hushmq.evaluation.attackers.hidden import Hidden
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.stream_loss import Box, Noise, loss, optimal_noise
from hushmq.pufferfish.papers.cgssy import corollary_1
from hushmq.pufferfish.witness.bit_witness import Side, Witness

ABOUT = """An attacker may know the true state at some instants: a visit that was seen, a heart rate read off a
display. CGSSY calibrate to the attacker who knows none, and say (Theorem 2) that knowing states can only make
the outputs less telling. Their proof takes it as obvious that the worst outputs agree with what is known. The
worst ones contradict it: then the outputs overturn what the attacker believed, and change the odds by more
than e^ε. Nothing here is simulated: losses are exact log-ratios of two likelihoods, chances are summed over all
outputs of the instants in between. "Fewest flips" is the noise of their Corollary 1, "most signal" the one that
their promise allows with the largest 1−ρ0−ρ1; ours is for the informed attacker."""

CHAINS = {
    "symmetric, θ=.2": (0.2, 0.2),
    "heart rate N10": (0.0893, 0.1092),
    "heart rate N5": (0.2384, 0.3831),
    "lopsided, q=.028 r=.402": (0.028, 0.402),
}
SHOWN = "symmetric, θ=.2"
SHOWN_EPSILON = 4.0
EPSILONS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
FARTHEST = 40
LISTED = 13
"""Instants to each side whose outputs are all listed."""


@dataclass(frozen=True, slots=True)
class Worst:
    """What gives away the most: the state favoured, and the state known so far away on both sides."""

    state: int
    distance: int
    told: int
    loss: float

    def words(self) -> str:
        """In the table's words."""
        return f"{self.told}s known {self.distance} away, outputs {self.state}"


def worst(q: float, r: float, noise: Noise) -> Worst:
    """The largest loss over distances, states and directions; both sides alike."""
    return max(
        (
            Worst(state, distance, told, at_distance(q, r, noise, state, distance, told))
            for state in (0, 1)
            for told in (0, 1)
            for distance in range(1, FARTHEST + 1)
        ),
        key=lambda found: found.loss,
    )


def at_distance(q: float, r: float, noise: Noise, state: int, distance: int, told: int) -> float:
    """The loss when that state is known so far away on both sides and all outputs in between favour `state`."""
    side = Side(distance - 1, told)
    return Witness(q, r, state, side, side).loss(noise)


def chance(q: float, r: float, noise: Noise, found: Worst, epsilon: float) -> float:
    """How probable outputs are, given what is known, that change the odds by more than e^ε."""
    known = Known(min(found.distance, LISTED + 1), found.told)
    hidden = Hidden(q, r, noise)
    return exact.attack(hidden, LISTED, LISTED, left=known, right=known).chance_above(epsilon * (1 + 1e-9))


@dataclass(frozen=True, slots=True)
class Case:
    """One chain and ε: what their noise really loses, and what ours costs."""

    chain: str
    epsilon: float
    fewest: float
    most: float
    found: Worst
    before: float
    """How sure the attacker is of the state that the outputs will favour, knowing the states told."""
    chance: float
    ours: float
    chance_ours: float
    samples: float
    """How many times the samples we need, against noise of most signal."""

    def belief(self, change: float) -> float:
        """How sure the attacker is when the odds have changed by so many nats."""
        odds = self.before / (1 - self.before) * math.exp(change)
        return odds / (1 + odds)

    def row(self) -> list[Cell]:
        """As a row of the table."""
        beliefs = [self.before, self.belief(self.epsilon), self.belief(self.found.loss)]
        return [
            *(self.chain, self.epsilon, self.fewest, self.most, self.found.words()),
            *beliefs,
            *(self.chance, self.ours, self.chance_ours, self.samples),
        ]


COLUMNS = (
    "chain",
    "ε",
    "real loss, fewest flips",
    "real loss, most signal",
    "worst known states, fewest flips",
    "belief before",
    "belief allowed",
    "belief after",
    "chance of passing e^ε",
    "real loss, ours",
    "chance with ours",
    "samples we need",
)


def case(chain: str, epsilon: float) -> Case:
    """Everything about one chain and ε."""
    q, r = CHAINS[chain]
    theta = Box.point(q, r)
    fewest, most, ours = (
        corollary_1(q, r, epsilon),
        optimal_noise(theta, epsilon, "prior"),
        optimal_noise(theta, epsilon),
    )
    found = worst(q, r, fewest)
    known = Known(found.distance, found.told)
    losses = [loss(theta, tau0=noise.tau0, tau1=noise.tau1) for noise in (fewest, most, ours)]
    return Case(
        chain=chain,
        epsilon=epsilon,
        fewest=losses[0],
        most=losses[1],
        found=found,
        before=float(exact.attack(Hidden(q, r, fewest), 0, 0, left=known, right=known).prior[found.state]),
        chance=chance(q, r, fewest, found, epsilon),
        ours=losses[2],
        chance_ours=chance(q, r, ours, worst(q, r, ours), epsilon),
        samples=(_signal(most) / _signal(ours)) ** 2,
    )


def run(job: Job) -> Iterator[Item]:
    epsilons = EPSILONS[1::3] if job.quick else EPSILONS
    yield _why()
    cases: list[Case] = []
    for number, name in enumerate(CHAINS):
        job.progress(number / len(CHAINS), name)
        cases.extend(case(name, epsilon) for epsilon in epsilons)
    yield Table(
        "losses",
        "What knowing some states gives away",
        COLUMNS,
        [each.row() for each in cases],
        "Belief: how sure the attacker is of the state at the attacked instant, knowing the states named, "
        "before and after the outputs; allowed is what e^ε permits. The chance, with fewest flips, is that "
        "of any outputs of up to 13 instants on either side that change the odds by more than e^ε; states "
        "known farther away than 14 count there as known 14 away. Samples: how many times as many ours "
        "needs for the same accuracy as most signal.",
        main=True,
    )
    yield _losses(cases, epsilons)
    yield from _findings(cases)


def _losses(cases: list[Case], epsilons: Sequence[float]) -> Picture:
    """Three ratios over ε, for every chain."""
    kinds: dict[str, Callable[[Case], float]] = {
        "real loss / ε, their fewest flips": lambda each: each.fewest / each.epsilon,
        "real loss / ε, their most signal": lambda each: each.most / each.epsilon,
        "samples ours needs / most signal": lambda each: each.samples,
    }
    even = Curve("1 (claimed; ours)", [epsilons[0], epsilons[-1]], [1.0, 1.0], reference=True)
    panels = []
    for title, ratio in kinds.items():
        curves = [
            Curve(name, epsilons, [ratio(each) for each in cases if each.chain == name], dots=True)
            for name in CHAINS
        ]
        panels.append(Panel(title, "ε", "ratio", [*curves, even], from_zero=False))
    return Picture("losses", Figure("Attackers who know some states", panels), main=True)


def _findings(cases: list[Case]) -> Iterator[Item]:
    broken = sum(each.fewest > each.epsilon * 1.001 for each in cases)
    surest = max(cases, key=lambda each: each.fewest / each.epsilon)
    largest = max(cases, key=lambda each: each.most / each.epsilon)
    likely = max(cases, key=lambda each: each.chance)
    yield Finding(
        f"The noise of CGSSY's Corollary 1 breaks its own promise by more than 0.1% in {broken} of "
        f"{len(cases)} cases; most on {surest.chain}, where ε = {surest.epsilon:g} is really "
        f"{surest.fewest:.3g}: {surest.found.words()}, and a belief of {surest.before:.1%} becomes "
        f"{surest.belief(surest.found.loss):.1%} where {surest.belief(surest.epsilon):.1%} is allowed. The "
        f"noise of most signal that the same promise allows reaches {largest.most:.3g} where "
        f"{largest.epsilon:g} is claimed ({largest.chain}).",
        kind="leads",
    )
    yield Finding(
        f"It takes no impossible outputs: on {likely.chain} at ε = {likely.epsilon:g}, with "
        f"{likely.found.told}s known {likely.found.distance} ticks away, {likely.chance:.1%} of all outputs "
        "change the odds by more than e^ε. With our noise none does, and no loss is above ε."
    )
    dearest = max(cases, key=lambda each: each.samples)
    yield Finding(
        f"Keeping the promise needs up to {dearest.samples:.2f} times the samples for the same accuracy "
        f"({dearest.chain}, ε = {dearest.epsilon:g}), against noise calibrated to the attacker who knows "
        "nothing.",
        kind="loses",
    )


def _why() -> Item:
    """Loss by distance of what is known, when outputs agree with it, as in their proof, and contradict it."""
    q, r = CHAINS[SHOWN]
    theirs, ours = corollary_1(q, r, SHOWN_EPSILON), optimal_noise(Box.point(q, r), SHOWN_EPSILON)
    distances = list(range(1, 16))
    lines = {
        "their noise, outputs agree with what is known": (theirs, 0),
        "their noise, outputs contradict it": (theirs, 1),
        "our noise, outputs contradict it": (ours, 1),
    }
    curves = [
        Curve(
            label,
            distances,
            [at_distance(q, r, noise, state, distance, 0) for distance in distances],
            dots=True,
        )
        for label, (noise, state) in lines.items()
    ]
    curves.append(
        Curve(f"ε = {SHOWN_EPSILON:g}", [1, distances[-1]], [SHOWN_EPSILON, SHOWN_EPSILON], reference=True)
    )
    panel = Panel("", "ticks to the nearest known state on either side", "loss, nats", curves)
    return Picture(
        "why",
        Figure("Why the ignorant attacker is not the worst: θ = .2, known states are 0", [panel]),
        main=True,
    )


def _signal(noise: Noise) -> float:
    return 1 - noise.rho0 - noise.rho1
