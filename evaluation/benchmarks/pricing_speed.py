"""Pricing a history from scratch and with one more entry: fast and slow chains, few and many entries, up to 12 states.

A row is the slowest of its chains. Chains of two states have q from .45 down to 1e-6: a box is [q, .45]², a single
chain has r = 1.1·q. The tilts are those that cost about 4 if they go on for ever; different ones lie between .3 and 1
times that. Chains of more states leave each of their states with a probability of .3, .03 or .003 a tick, known up to a
fifth. Ten thousand windows are not timed for the informed adversary on single chains, nor on more states: that takes
seconds.

Times are processor seconds, the least of several, so that other work on the machine does not count.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.calibration_speed import fastest
from hushmq.evaluation.benchmarks.growth import growth_row
from hushmq.pufferfish.adversary import ADVERSARIES, Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical import contraction, hull_side
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.protocols import Theta, Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price

LEAST = (0.45, 0.1, 1e-2, 1e-3, 1e-4, 1e-6)
"""The least q, and r, of a chain."""

LEAVING = (0.3, 0.03, 0.003)
"""With what probability a chain of more states leaves each of them."""

WINDOW = 100

MOST_INFORMED = 4
"""With more states the informed adversary's bound takes many seconds."""


def windows(count: int, tau: float, *, ticks: int = WINDOW, different: bool = True) -> list[Entry]:
    """Windows one after the other. Equal ones leave every second tick between them out, so that they stay apart."""
    rng, found = random.Random(count), []
    for number in range(count):
        first = number * (ticks if different else ticks + 2)
        share = rng.uniform(0.3, 1.0) if different else 1.0
        found.append(Entry(first, first + ticks - 1, share * tau, share * tau))
    return found


HISTORIES: Mapping[str, Callable[[float], list[Entry]]] = {
    "2 windows of an hour": lambda tau: windows(2, tau, ticks=3600),
    "100 different windows": lambda tau: windows(100, tau),
    "10,000 equal windows": lambda tau: windows(10_000, tau, different=False),
    "10,000 different windows": lambda tau: windows(10_000, tau),
}


def run() -> Iterator[Row]:
    """Two states for every adversary, then more of them."""
    adversary: Adversary
    _region(0.1).timeline("prior", windows(100, 0.1))  # whatever is imported at the first call
    for adversary in ADVERSARIES:
        for kind, of_least in (("box", _region), ("single chain", _single)):
            chains: dict[str, Theta] = {f"q = {q:g}": of_least(q) for q in LEAST}
            for name, history in HISTORIES.items():
                if (adversary, kind) != ("informed", "single chain") or "10,000" not in name:
                    yield from _slowest(f"{adversary}, {kind}, {name}", adversary, chains, history, (50, 5))
            yield _growth_with_entries(adversary, kind, of_least(1e-4))
            yield _growth_with_slowness(adversary, kind, of_least)
    # The undecided adversary is priced by the prior one's timeline.
    for adversary, most, histories in (("prior", 12, 4), ("informed", MOST_INFORMED, 2)):
        for states in (3, 4, 6, 12):
            if states > most:
                continue
            chains = {f"leaving with {leave:g}": _several(states, leave) for leave in LEAVING}
            for name in list(HISTORIES)[:histories]:
                yield from _slowest(
                    f"{states} states, {adversary}, {name}", adversary, chains, HISTORIES[name], (100, 10)
                )


def _slowest(
    name: str,
    adversary: Adversary,
    chains: Mapping[str, Theta],
    history: Callable[[float], list[Entry]],
    aims: tuple[int, int],
) -> Iterator[Row]:
    """From scratch, with one more entry at the end, and with one in the middle."""
    found: dict[str, dict[str, float]] = {"from scratch": {}, "one more at the end": {}, "in the middle": {}}
    for chain, theta in chains.items():
        tau = _tilt(theta)
        if tau == 0.0:
            continue
        entries = history(tau)
        end = entries[-1].last + 1
        seconds, timeline = fastest(partial(_afresh, theta, adversary, entries), rounds=1)
        found["from scratch"][chain] = seconds
        for place, first, share in (("one more at the end", end, 0.7), ("in the middle", end // 2, 1e-3)):
            more = _different_entries(first, share * tau)
            found[place][chain], _ = fastest(partial(_price_with_next, timeline, more), rounds=2)
    for (what, by_chain), aim in zip(found.items(), (aims[0], aims[1], aims[1]), strict=True):
        slowest = max(by_chain, key=by_chain.__getitem__)
        times = ", ".join(f"{1e3 * one:.3g}" for one in by_chain.values())
        yield Row(
            f"{name}: {what}",
            1e3 * by_chain[slowest],
            "ms",
            f"{slowest} is the slowest of {times} ms",
            None,
            f"≤ {aim} ms",
        )


def _afresh(theta: Theta, adversary: Adversary, entries: Sequence[Entry]) -> Timeline:
    """The timeline, with nothing remembered of Θ."""
    contraction.contraction_sides.cache_clear()
    contraction.informed_sides.cache_clear()
    hull_side.hull_sides.cache_clear()
    return theta.timeline(adversary, entries)


def _different_entries(first: int, tau: float) -> Iterator[Entry]:
    """Windows at one place, none like another, so that no price is remembered."""
    for number in count():
        tilt = tau * (1.0 + 1e-3 * number)
        yield Entry(first, first + WINDOW - 1, tilt, tilt)


def _price_with_next(timeline: Timeline, entries: Iterator[Entry]) -> Price:
    return timeline.price_with(next(entries))


def _growth_with_entries(adversary: Adversary, kind: str, theta: Theta) -> Row:
    tau = _tilt(theta)
    seconds = {
        count: fastest(partial(theta.timeline, adversary, windows(count, tau)), rounds=2)[0]
        for count in (100, 1_000, 10_000)
    }
    return growth_row(f"{adversary}, {kind}, q = 1e-4, from scratch by entries", seconds, aim="≤ 1.1")


def _growth_with_slowness(adversary: Adversary, kind: str, of_least: Callable[[float], Theta]) -> Row:
    seconds = {}
    for q in LEAST[1:]:
        theta = of_least(q)
        entries = windows(2, _tilt(theta), ticks=3600)
        seconds[round(1 / q)] = fastest(partial(theta.timeline, adversary, entries), rounds=2)[0]
    return growth_row(f"{adversary}, {kind}, 2 windows from scratch by 1/q", seconds, aim="≤ 0.2")


def _tilt(theta: Theta) -> float:
    return min(theta.largest_tilts(4.0, "prior"))


def _region(q: float) -> BinaryTheta:
    return BinaryTheta(q, 0.45, q, 0.45)


def _single(q: float) -> BinaryTheta:
    return BinaryTheta.point(q, 1.1 * q)


def _several(states: int, leave: float) -> CategoricalTheta:
    """A chain with random transitions, each known up to a fifth."""
    rng = random.Random(states)
    low, high = [], []
    for x in range(states):
        weights = [0.0 if u == x else rng.uniform(0.5, 1.5) for u in range(states)]
        row = [leave * weight / sum(weights) for weight in weights]
        low.append([1 - 1.2 * leave if u == x else 0.8 * p for u, p in enumerate(row)])
        high.append([1 - 0.8 * leave if u == x else 1.2 * p for u, p in enumerate(row)])
    return CategoricalTheta.between(low, high)
