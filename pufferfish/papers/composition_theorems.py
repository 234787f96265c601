"""The papers' composition theorems, each as a function under its number, and the quilt bound on a timeline.

They bound the loss of several releases of which only the ε of each is known. `binary_timeline.price` uses the tilts and
never exceeds any of these bounds (docs/theory.md, section 8). They are for comparison, and for mechanisms whose tilts
are unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.directed_chain import forgetting_time
from hushmq.pufferfish.binary.stream_loss import rounded_up
from hushmq.pufferfish.mobius.ratio_orbit import orbit_of
from hushmq.pufferfish.timeline.entry import Entry, Price
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats, to_units


def swc_4_4(epsilons: Sequence[float]) -> float:
    """SWC Theorem 4.4, SC Theorem II.6: K·max ε_k, for runs of MQM that all use the same active quilts."""
    return len(_require_losses(epsilons)) * max(epsilons)


def sc_iii_1(epsilon_a: float, epsilon_b: float, influence_on_b: float, influence_on_a: float) -> float:
    """SC Theorem III.1: any two mechanisms on two stretches [T1, T2] and [T3, T4] of one chain, T2 < T3.

    A secret in A has a loss of ε_A + min(ε_B, e(X_T3 | X_T2)), one in B of ε_B + min(ε_A, e(X_T2 | X_T3)):
    `influence_on_b` is that of the last instant of A on the first of B. This is what the paper proves; its statement
    exchanges the two influences, which matters only for chains that are not reversible.
    """
    _require_losses((epsilon_a, epsilon_b, influence_on_b, influence_on_a))
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
    """SC Theorem III.3: max(ε_A, ε_B), for MQMApprox on two distant stretches of ticks.

    It requires that in both stretches some instant has an active quilt with nodes on both sides, for every chain in Θ,
    and that the gap is at least as long as each stretch; ValueError otherwise.
    """
    _require_losses((epsilon_a, epsilon_b))
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

    E bounds, for every secret and chain, the max-divergence in both directions between the joint law of the two
    outputs and the product of their laws.
    """
    _require_losses((epsilon_a, epsilon_b, divergence))
    return epsilon_a + epsilon_b + 2.0 * divergence


def sc_iii_7(epsilons: Sequence[float]) -> float:
    """SC Theorem III.7: Σ ε_k, for runs of MQM on one chain with any quilts."""
    return math.fsum(_require_losses(epsilons))


def lcm_sequential(epsilons: Sequence[float]) -> float:
    """LCM Theorem 3: Σ ε_t, for dependent differential privacy under the same dependence."""
    return math.fsum(_require_losses(epsilons))


def lcm_parallel(epsilons: Sequence[float]) -> float:
    """LCM Theorem 4: max ε_t, for algorithms on disjoint parts of the data.

    True if no tuple of one part depends on a tuple of another. The paper omits this condition, and without it the claim
    is false: two parts that are copies of each other cost the sum (tests).
    """
    return max(_require_losses(epsilons))


def influence(theta: BinaryTheta, ticks: int) -> float:
    """e_Θ(X_{i+d} | X_i) of binary chains (SWC Definition 4.1), the same in both directions of time."""
    if ticks < 1:
        raise ValueError(f"ticks is {ticks}; the other instant must be at least one tick away")
    return max(rounded_up(max(_influences(q, r, ticks))) for q, r in theta.worst_corners())


def quilt_price(
    entries: Iterable[Entry], theta: BinaryTheta, *, span: tuple[int, int] | None = None
) -> Price:
    """The quilt bound on a timeline, for the prior adversary: max over ticks, min over quilts.

    A quilt {i−a, i+b} costs its influence plus the tilts of the ticks strictly inside; a side without a node costs the
    tilts of all its ticks. SC Theorems III.1, III.3 and III.7 are special cases (docs/theory.md, section 8).
    """
    pieces = [(entry.first, entry.last, to_units(entry.tau0), to_units(entry.tau1)) for entry in entries]
    runs = TiltRuns(pieces)
    if not runs.tilts:
        return Price(0.0, None)
    first, last = runs.edges[0], runs.edges[-1] - 1
    low, high = span if span is not None else (first, last)
    tilts = [(0.0, 0.0)] * (high - low + 1)
    for k, (tilt0, tilt1) in enumerate(runs.tilts):
        for tick in range(runs.edges[k], runs.edges[k + 1]):
            tilts[tick - low] = (to_nats(tilt0), to_nats(tilt1))
    best = Price(0.0, None)
    for q, r in theta.worst_corners():
        ends = [_influences(q, r, ticks) for ticks in range(1, forgetting_time(q, r) + 1)]
        for state in (0, 1):
            # For negative correlation a quilt bound uses the larger of the two tilts.
            taus = [tilt[state] if q + r < 1.0 else max(tilt) for tilt in tilts]
            influences = [end[state] for end in ends]
            lefts = _quilt_side_costs(taus, influences, endless=span is None)
            rights = _quilt_side_costs(taus[::-1], influences, endless=span is None)[::-1]
            for i, tau in enumerate(taus):
                loss = rounded_up(tau + lefts[i] + rights[i])
                if loss > best.epsilon:
                    best = Price(loss, low + i)
    return best


def _quilt_side_costs(taus: list[float], influences: list[float], *, endless: bool) -> list[float]:
    """At every tick, the least cost of a quilt's left side: the influence of its node plus the tilts up to it."""
    sides = []
    for i in range(len(taus)):
        best, inside = math.inf, 0.0
        for away, influence_there in enumerate(influences, start=1):
            # A node before the first tick exists only on an endless stream.
            if away > i and not endless:
                break
            best = min(best, inside + influence_there)
            inside += taus[i - away] if away <= i else 0.0
        sides.append(min(best, math.fsum(taus[:i])))
    return sides


def _influences(q: float, r: float, ticks: int) -> tuple[float, float]:
    """The largest log P^d[0,y]/P^d[1,y] over y, and the largest log P^d[1,y]/P^d[0,y]."""
    if q + r < 1.0:
        base = orbit_of(q, r, 0.0)
        return math.log(base.from_known_0(ticks)), -math.log(base.from_known_1(ticks))
    s = (1.0 - q - r) ** ticks
    ratios = (1.0 + q / r * s) / (1.0 - s), (1.0 - s) / (1.0 + r / q * s)
    return math.log(max(ratios)), -math.log(min(ratios))


def _require_losses(numbers: Sequence[float]) -> Sequence[float]:
    if not numbers or not all(0.0 <= number < math.inf for number in numbers):
        raise ValueError(
            f"the losses are {list(numbers)!r}; they must be finite numbers, 0 or more, at least one"
        )
    return numbers
