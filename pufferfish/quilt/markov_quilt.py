"""The Markov quilt mechanism on chains: exact, and from the mixing of the chain alone.

`exact` is SWC's Algorithm 3, `approx` their Algorithm 4, by the walk `fast` of WSC Appendix B.2 over few of
the nodes. All promise: Laplace noise of the returned scale on a 1-Lipschitz query of a stream keeps the state at every
single instant ε-Pufferfish private, for an adversary who believes in one of the chains and knows no other state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from hushmq.pufferfish.quilt.laplace_scale import NO_QUILT, Scale, require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.quilt_influence import UNIT, ChainBelief
from hushmq.pufferfish.quilt.quilt_search import Found, Sides, score, worst_node


def exact(chains: Iterable[Chain], length: int | None, epsilon: float, *, any_initial: bool = False) -> Scale:
    """MQMExact: the largest, over chains and nodes, of the best quilt's score (SWC Algorithm 3, Theorem 4.3).

    `length=None` is a stream without end. With `any_initial` every chain may have started in any way (SWC
    Appendix C.4); otherwise it starts as it says, or stationary. Each chain uses its own quilts.
    """
    require_epsilon(epsilon)
    require_length(length)
    found = [worst_node(ChainBelief(chain, any_initial=any_initial), length, epsilon) for chain in chains]
    if not found:
        raise ValueError("chains is empty; give at least one chain")
    worst = max(found, key=lambda one: one.score)
    return Scale("mqm-exact", worst.score, worst.quilt)


@dataclass(frozen=True, slots=True)
class Mixing:
    """A class of chains known only by how fast they forget: the least stationary probability and the least gap.

    The gap is that of SWC's equation 7, 1 − the second eigenvalue of P·P*, or for a reversible chain the larger
    2·(1 − the second |eigenvalue| of P) of their equation 14. Either way P^t[x,y] = π[y]·(1±Δ_t) with
    Δ_t = exp(−gap·t/2)/π_min (SWC Lemma C.5). WSC's gap is half of this one.
    """

    pi_min: float
    gap: float

    def __post_init__(self) -> None:
        """Refuse values no mixing chain can have."""
        if not 0 < self.pi_min <= 0.5:
            raise ValueError(f"pi_min is {self.pi_min:g}; the least probability of a state lies in (0, 0.5]")
        if not 0 < self.gap <= 2:
            raise ValueError(f"gap is {self.gap:g}; an eigengap lies in (0, 2]")

    @classmethod
    def of(cls, chains: Iterable[Chain]) -> Mixing:
        """The class that covers these chains, each with the better gap it is entitled to."""
        listed = list(chains)
        if not listed:
            raise ValueError("chains is empty; give at least one chain")
        gap = min(_gap(chain) for chain in listed)
        if gap <= 0:
            raise ValueError("a chain has eigengap 0: its mixing bounds nothing; use the exact mechanism")
        return cls(min(float(chain.stationary().min()) for chain in listed), gap)

    def ratio(self, t: int) -> float:
        """A bound on log P^t[x,z]/P^t[y,z] over all states: log (1+Δ_t)/(1−Δ_t); infinite while Δ_t ≥ 1."""
        delta = math.exp(-self.gap * t / 2) / self.pi_min
        return 2 * math.atanh(delta) if delta < 1 else math.inf

    def influence(self, a: int | None, b: int | None) -> float:
        """A bound on the influence of a node on its quilt (SWC Lemma 4.8; WSC Lemma 4.7 for quilts of one node).

        The left end counts twice: once for the steps from it, once for the law of the node itself, which is
        unknown but has forgotten its own start as far.
        """
        return (0.0 if a is None else 2 * self.ratio(a)) + (0.0 if b is None else self.ratio(b))


def _gap(chain: Chain) -> float:
    """The better gap the chain is entitled to, less what rounding may have added to it."""
    gap = 2 * chain.reversible_eigengap() if chain.is_reversible() else chain.eigengap()
    return gap - 16 * chain.k * UNIT


def approx(mixing: Mixing, length: int | None, epsilon: float) -> Scale:
    """MQMApprox: as `exact`, with the influence bounded by the mixing alone (SWC Algorithm 4).

    On an endless stream all nodes are alike. On a finite one the walk of `fast` finds the worst.
    """
    require_epsilon(epsilon)
    require_length(length)
    found = _best(mixing, Sides(None, None), epsilon) if length is None else fast(mixing, length, epsilon)
    return Scale("mqm-approx", found.score, found.quilt)


def fast(mixing: Mixing, length: int, epsilon: float) -> Found:
    """The worst node, found from the middle outwards (WSC Algorithm 3, Claims B.1 and B.2; SWC Lemma C.9).

    The bound on the influence does not depend on the node. So a best quilt with both ends, or none, settles all
    nodes; one without a right end settles those further right, one without a left end those further left.
    """
    i, seen, worst = max(1, length // 2), set[int](), Found(0.0, NO_QUILT)
    while i not in seen:
        seen.add(i)
        found = _best(mixing, Sides(i, length + 1 - i), epsilon)
        if found.score > worst.score:
            worst = found
        a, b = found.quilt
        if (a is None) == (b is None):
            break
        i += 1 if a is None else -1
    return worst


def reach(mixing: Mixing, epsilon: float) -> int:
    """The distance a* at which a quilt with both ends has an influence of at most ε/2 (SWC Lemma 4.9).

    No quilt that leaves 4a* instants near is better than that one. So on chains of 8a* instants or more the middle
    node's best quilt has both ends, and the middle node is the worst.
    """
    # (e^(ε/6)+1)/(e^(ε/6)−1) = 1/tanh(ε/12)
    return 2 * math.ceil(-math.log(math.tanh(epsilon / 12) * mixing.pi_min) / mixing.gap)


def _best(mixing: Mixing, sides: Sides, epsilon: float) -> Found:
    """The quilt with the lowest score n/(ε−e), where n and e are sums of one part for each end.

    For a trial score s the quilt least in n + s·e is found one end at a time. If its score is lower it is the next
    trial. If not, n ≥ s·(ε−e) for all quilts: none is better than s (Dinkelbach's method, exact after finitely many
    trials).
    """
    quilt = sides.ends(reach(mixing, epsilon), reach(mixing, epsilon))
    best = Found(score(sides, mixing.influence, epsilon, quilt), quilt)
    while True:
        quilt = _end(mixing, sides.left, 2 * best.score), _end(mixing, sides.right, best.score)
        trial = Found(score(sides, mixing.influence, epsilon, quilt), quilt)
        if trial.score >= best.score:
            return best
        best = trial


def _end(mixing: Mixing, end: int | None, weight: float) -> int | None:
    """The distance t that minimises t + weight·ratio(t); None, at the cost of `end`, for no node on that side.

    The sum is convex in t, with its minimum where weight·gap·Δ = 1−Δ²: the best whole t lies next to it.
    """
    slope = weight * mixing.gap
    delta = 2 / (slope + math.hypot(slope, 2))
    below = math.floor(-2 * math.log(mixing.pi_min * delta) / mixing.gap)
    nearest = [max(1, t) for t in (below, below + 1)]
    options: list[int | None] = list(nearest)
    if end is not None:
        options = [min(t, end - 1) for t in nearest if end > 1] + [None]
    return min(options, key=lambda t: cast(int, end) if t is None else t + weight * mixing.ratio(t))
