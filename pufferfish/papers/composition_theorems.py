"""The papers' composition theorems, each as a function under its own number, and the quilt bound on a timeline.

They say what several releases cost together when only the ε of each is known. The timeline (`timeline.price`) knows
the tilts, and is never above any of them (docs/theory.md, section 8). They are here to compare with, and for
mechanisms whose tilts are not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hushmq.pufferfish.binary.binary_timeline import Entry, Price
from hushmq.pufferfish.binary.directed_chain import reach
from hushmq.pufferfish.binary.ratio_orbit import orbit
from hushmq.pufferfish.binary.stream_loss import Box, up
from hushmq.pufferfish.timeline.tilt_runs import Runs, nats, units


def swc_4_4(epsilons: Sequence[float]) -> float:
    """SWC Theorem 4.4, SC Theorem II.6: K·max ε_k, for runs of MQM that all use the same active quilts."""
    return len(_checked(epsilons)) * max(epsilons)


def sc_iii_1(epsilon_a: float, epsilon_b: float, influence_on_b: float, influence_on_a: float) -> float:
    """SC Theorem III.1: any two mechanisms on two stretches [T1, T2] and [T3, T4] of one chain, T2 < T3.

    A secret in A costs ε_A + min(ε_B, e(X_T3 | X_T2)), one in B costs ε_B + min(ε_A, e(X_T2 | X_T3)): the
    influence on B is that of the last instant of A on the first of B. So the paper's proof; its statement has
    the two influences exchanged, which matters only for chains that are not reversible.
    """
    _checked((epsilon_a, epsilon_b, influence_on_b, influence_on_a))
    return max(epsilon_a + min(epsilon_b, influence_on_b), epsilon_b + min(epsilon_a, influence_on_a))


def sc_iii_3(
    epsilon_a: float,
    epsilon_b: float,
    *,
    a: tuple[int, int],
    b: tuple[int, int],
    two_sided_a: bool,
    two_sided_b: bool,
) -> float:
    """SC Theorem III.3: max(ε_A, ε_B), for MQMApprox on two stretches of ticks far apart.

    It asks that in both some instant has an active quilt with an end on either side, for every chain in Θ, and
    that the gap is at least as long as each stretch.
    """
    _checked((epsilon_a, epsilon_b))
    if not a[0] < a[1] < b[0] < b[1]:
        raise ValueError(f"a is {a} and b is {b}; they must be two stretches of ticks, a before b")
    if not (two_sided_a and two_sided_b):
        raise ValueError(
            "two_sided_a and two_sided_b must both hold: Theorem III.3 needs a two-sided quilt in each"
        )
    if b[0] - a[1] < max(a[1] - a[0], b[1] - b[0]):
        raise ValueError(f"a is {a} and b is {b}; the gap between them must be at least as long as each")
    return max(epsilon_a, epsilon_b)


def sc_iii_6(epsilon_a: float, epsilon_b: float, divergence: float) -> float:
    """SC Theorem III.6: ε_A + ε_B + 2E, for any two mechanisms on the same data.

    E bounds, for every secret and chain, the max-divergence between the joint law of the two outputs and the
    product of their laws, either way round.
    """
    _checked((epsilon_a, epsilon_b, divergence))
    return epsilon_a + epsilon_b + 2.0 * divergence


def sc_iii_7(epsilons: Sequence[float]) -> float:
    """SC Theorem III.7: Σ ε_k, for runs of MQM on one chain, whatever quilts they use."""
    return math.fsum(_checked(epsilons))


def lcm_sequential(epsilons: Sequence[float]) -> float:
    """LCM Theorem 3: Σ ε_t, for dependent differential privacy under the same dependence."""
    return math.fsum(_checked(epsilons))


def lcm_parallel(epsilons: Sequence[float]) -> float:
    """LCM Theorem 4: max ε_t, for algorithms on disjoint parts of the data.

    True where no tuple of one part depends on a tuple of another. The paper does not ask for that, and without it
    the claim fails: two parts that are copies of each other cost the sum (tests).
    """
    return max(_checked(epsilons))


def influence(theta: Box, ticks: int) -> float:
    """e_Θ(X_{i+d} | X_i) of binary chains (SWC Definition 4.1): the same forwards and backwards."""
    if ticks < 1:
        raise ValueError(f"ticks is {ticks}; the other instant must be at least one tick away")
    return max(up(max(_influences(q, r, ticks))) for q, r in theta.worst())


def quilt_price(entries: Iterable[Entry], theta: Box, *, span: tuple[int, int] | None = None) -> Price:
    """The quilt bound on a timeline, for the prior adversary: max over ticks, min over quilts.

    A quilt {i−a, i+b} costs its influence and the tilts of the ticks strictly inside; a side without an end costs
    the tilts of all ticks there. SC Theorems III.1, III.3 and III.7 are special cases (docs/theory.md, section 8).
    """
    pieces = [(entry.first, entry.last, units(entry.tau0), units(entry.tau1)) for entry in entries]
    runs = Runs(pieces)
    if not runs.tilts:
        return Price(0.0, None)
    first, last = runs.edges[0], runs.edges[-1] - 1
    low, high = span if span is not None else (first, last)
    tilts = [(0.0, 0.0)] * (high - low + 1)
    for k, (tilt0, tilt1) in enumerate(runs.tilts):
        for tick in range(runs.edges[k], runs.edges[k + 1]):
            tilts[tick - low] = (nats(tilt0), nats(tilt1))
    best = Price(0.0, None)
    for q, r in theta.worst():
        ends = [_influences(q, r, ticks) for ticks in range(1, reach(q, r) + 1)]
        for state in (0, 1):
            # With negative correlation a quilt does not say which of the two tilts it will meet.
            taus = [tilt[state] if q + r < 1.0 else max(tilt) for tilt in tilts]
            influences = [end[state] for end in ends]
            lefts = _sides(taus, influences, endless=span is None)
            rights = _sides(taus[::-1], influences, endless=span is None)[::-1]
            for i, tau in enumerate(taus):
                loss = up(tau + lefts[i] + rights[i])
                if loss > best.epsilon:
                    best = Price(loss, low + i)
    return best


def _sides(taus: list[float], influences: list[float], *, endless: bool) -> list[float]:
    """At every tick, the least of a quilt's end before it: its influence and the tilts up to it."""
    sides = []
    for i in range(len(taus)):
        best, inside = math.inf, 0.0
        for away, influence_there in enumerate(influences, start=1):
            # The end may lie before the first tick only where the stream goes on there.
            if away > i and not endless:
                break
            best = min(best, inside + influence_there)
            inside += taus[i - away] if away <= i else 0.0
        sides.append(min(best, math.fsum(taus[:i])))
    return sides


def _influences(q: float, r: float, ticks: int) -> tuple[float, float]:
    """The largest log P^d[0,y]/P^d[1,y] over y, and the largest log P^d[1,y]/P^d[0,y]."""
    if q + r < 1.0:
        base = orbit(q, r, 0.0)
        return math.log(base.from0(ticks)), -math.log(base.from1(ticks))
    s = (1.0 - q - r) ** ticks
    ratios = (1.0 + q / r * s) / (1.0 - s), (1.0 - s) / (1.0 + r / q * s)
    return math.log(max(ratios)), -math.log(min(ratios))


def _checked(numbers: Sequence[float]) -> Sequence[float]:
    if not numbers or not all(0.0 <= number < math.inf for number in numbers):
        raise ValueError(
            f"the losses are {list(numbers)!r}; they must be finite numbers, 0 or more, at least one"
        )
    return numbers
