"""Attackers who know some true states, against CGSSY's noise and ours: where and why CGSSY's Theorem 2 fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hushmq.evaluation.attackers import exact
from hushmq.evaluation.attackers.exact import KnownState
from hushmq.evaluation.attackers.hidden import Hidden
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.papers.cgssy import corollary_1
from hushmq.pufferfish.witness.bit_witness import ObservedSide, Witness

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
OBSERVED_TICKS = 13
"""Instants on each side whose outputs are enumerated."""


@dataclass(frozen=True, slots=True)
class WorstKnownState:
    """The worst case: the favoured state, and the known state and its distance, the same on both sides."""

    state: int
    distance: int
    known_state: int
    loss: float

    def words(self) -> str:
        """A description for the table."""
        return f"{self.known_state}s known {self.distance} away, outputs {self.state}"


def worst_known_state(q: float, r: float, noise: BinaryNoise) -> WorstKnownState:
    """The largest loss over distances, known states and favoured states, the same on both sides."""
    return max(
        (
            WorstKnownState(
                state, distance, known_state, at_distance(q, r, noise, state, distance, known_state)
            )
            for state in (0, 1)
            for known_state in (0, 1)
            for distance in range(1, FARTHEST + 1)
        ),
        key=lambda found: found.loss,
    )


def at_distance(q: float, r: float, noise: BinaryNoise, state: int, distance: int, known_state: int) -> float:
    """The loss if `known_state` is known at `distance` on both sides and all outputs in between favour `state`."""
    side = ObservedSide(distance - 1, known_state)
    return Witness(q, r, state, side, side).loss(noise)


def excess_probability(
    q: float, r: float, noise: BinaryNoise, found: WorstKnownState, epsilon: float
) -> float:
    """The probability, given the known states, of outputs that change the odds by more than e^ε."""
    known = KnownState(min(found.distance, OBSERVED_TICKS + 1), found.known_state)
    hidden = Hidden(q, r, noise)
    return exact.attack(hidden, OBSERVED_TICKS, OBSERVED_TICKS, left=known, right=known).probability_above(
        epsilon * (1 + 1e-9)
    )


@dataclass(frozen=True, slots=True)
class InformedCase:
    """One chain and ε: the actual loss of CGSSY's noise, and the cost of ours."""

    chain: str
    epsilon: float
    fewest: float
    most: float
    found: WorstKnownState
    before: float
    """The attacker's prior probability of the favoured state, given the known states."""
    excess_probability: float
    ours: float
    chance_ours: float
    samples: float
    """The ratio of the number of samples needed with our noise to that with the noise of most signal."""

    def posterior(self, change: float) -> float:
        """The attacker's posterior probability after a change of the log odds by `change` nats."""
        odds = self.before / (1 - self.before) * math.exp(change)
        return odds / (1 + odds)

    def row(self) -> list[Cell]:
        """The row of the table."""
        posteriors = [self.before, self.posterior(self.epsilon), self.posterior(self.found.loss)]
        return [
            *(self.chain, self.epsilon, self.fewest, self.most, self.found.words()),
            *posteriors,
            *(self.excess_probability, self.ours, self.chance_ours, self.samples),
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


def case(chain: str, epsilon: float) -> InformedCase:
    """The case of one chain and ε."""
    q, r = CHAINS[chain]
    theta = BinaryTheta.point(q, r)
    fewest, most, ours = (
        corollary_1(q, r, epsilon),
        optimal_noise(theta, epsilon, "prior"),
        optimal_noise(theta, epsilon),
    )
    found = worst_known_state(q, r, fewest)
    known = KnownState(found.distance, found.known_state)
    losses = [loss(theta, tau0=noise.tau0, tau1=noise.tau1) for noise in (fewest, most, ours)]
    return InformedCase(
        chain=chain,
        epsilon=epsilon,
        fewest=losses[0],
        most=losses[1],
        found=found,
        before=float(exact.attack(Hidden(q, r, fewest), 0, 0, left=known, right=known).prior[found.state]),
        excess_probability=excess_probability(q, r, fewest, found, epsilon),
        ours=losses[2],
        chance_ours=excess_probability(q, r, ours, worst_known_state(q, r, ours), epsilon),
        samples=(_signal(most) / _signal(ours)) ** 2,
    )


def run(job: Job) -> Iterator[Item]:
    epsilons = EPSILONS[1::3] if job.quick else EPSILONS
    yield _why()
    cases: list[InformedCase] = []
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


def _losses(cases: list[InformedCase], epsilons: Sequence[float]) -> Picture:
    """Three ratios over ε, for every chain."""
    kinds: dict[str, Callable[[InformedCase], float]] = {
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


def _findings(cases: list[InformedCase]) -> Iterator[Item]:
    broken = sum(each.fewest > each.epsilon * 1.001 for each in cases)
    surest = max(cases, key=lambda each: each.fewest / each.epsilon)
    largest = max(cases, key=lambda each: each.most / each.epsilon)
    likely = max(cases, key=lambda each: each.excess_probability)
    yield Finding(
        f"The noise of CGSSY's Corollary 1 breaks its own promise by more than 0.1% in {broken} of "
        f"{len(cases)} cases; most on {surest.chain}, where ε = {surest.epsilon:g} is really "
        f"{surest.fewest:.3g}: {surest.found.words()}, and a belief of {surest.before:.1%} becomes "
        f"{surest.posterior(surest.found.loss):.1%} where {surest.posterior(surest.epsilon):.1%} is allowed. The "
        f"noise of most signal that the same promise allows reaches {largest.most:.3g} where "
        f"{largest.epsilon:g} is claimed ({largest.chain}).",
        kind="leads",
    )
    yield Finding(
        f"It takes no impossible outputs: on {likely.chain} at ε = {likely.epsilon:g}, with "
        f"{likely.found.known_state}s known {likely.found.distance} ticks away, "
        f"{likely.excess_probability:.1%} of all outputs "
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
    """The loss over the distance of the known state, if outputs agree with it (CGSSY's proof) or contradict it."""
    q, r = CHAINS[SHOWN]
    theirs, ours = corollary_1(q, r, SHOWN_EPSILON), optimal_noise(BinaryTheta.point(q, r), SHOWN_EPSILON)
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


def _signal(noise: BinaryNoise) -> float:
    return 1 - noise.rho0 - noise.rho1
