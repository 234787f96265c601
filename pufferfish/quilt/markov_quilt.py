"""The Markov quilt mechanism on chains: exact, and from mixing properties alone.

`exact` is SWC's Algorithm 3 and `approx` their Algorithm 4; `fast`, the algorithm of WSC Appendix B.2, evaluates few of
the nodes. Laplace noise of the returned scale on a 1-Lipschitz query of a stream keeps the state at every single
instant ε-Pufferfish private, for an adversary who knows one of the chains and no other state.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

from hushmq.pufferfish.quilt.laplace_scale import NO_QUILT, LaplaceScale, require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.quilt_influence import UNIT, ChainInfluence
from hushmq.pufferfish.quilt.quilt_search import EndDistances, ScoredQuilt, score, worst_node


def exact(
    chains: Iterable[Chain], length: int | None, epsilon: float, *, any_initial: bool = False
) -> LaplaceScale:
    """MQMExact: the largest score of a best quilt over all chains and nodes (SWC Algorithm 3, Theorem 4.3).

    `length=None` is an endless stream. With `any_initial` every chain may have any initial law (SWC Appendix C.4);
    otherwise it has its given initial law, or the stationary one. Quilts are chosen for each chain separately.
    """
    require_epsilon(epsilon)
    require_length(length)
    found = [worst_node(ChainInfluence(chain, any_initial=any_initial), length, epsilon) for chain in chains]
    if not found:
        raise ValueError("chains is empty; give at least one chain")
    worst = max(found, key=lambda one: one.score)
    return LaplaceScale("mqm-exact", worst.score, worst.quilt)


@dataclass(frozen=True, slots=True)
class Mixing:
    """All chains with at least this smallest stationary probability and this eigengap.

    The gap is that of SWC's equation 7, 1 − the second eigenvalue of P·P*, or for a reversible chain the larger
    2·(1 − the second |eigenvalue| of P) of their equation 14. Either way P^t[x,y] = π[y]·(1±Δ_t) with
    Δ_t = exp(−gap·t/2)/π_min (SWC Lemma C.5). WSC's gap is half of this one.
    """

    pi_min: float
    gap: float

    def __post_init__(self) -> None:
        """ValueError for values that no mixing chain has."""
        if not 0 < self.pi_min <= 0.5:
            raise ValueError(f"pi_min is {self.pi_min:g}; the least probability of a state lies in (0, 0.5]")
        if not 0 < self.gap <= 2:
            raise ValueError(f"gap is {self.gap:g}; an eigengap lies in (0, 2]")

    @classmethod
    def of(cls, chains: Iterable[Chain]) -> Mixing:
        """The smallest such class that contains these chains, each with the larger of its valid gaps."""
        listed = list(chains)
        if not listed:
            raise ValueError("chains is empty; give at least one chain")
        gap = min(_gap(chain) for chain in listed)
        if gap <= 0:
            raise ValueError("a chain has eigengap 0, so its mixing gives no bound; use the exact mechanism")
        return cls(min(float(chain.stationary().min()) for chain in listed), gap)

    def ratio(self, t: int) -> float:
        """Upper bound on log P^t[x,z]/P^t[y,z] over all states: log (1+Δ_t)/(1−Δ_t); infinite if Δ_t ≥ 1."""
        delta = math.exp(-self.gap * t / 2) / self.pi_min
        return 2 * math.atanh(delta) if delta < 1 else math.inf

    def influence(self, a: int | None, b: int | None) -> float:
        """Upper bound on the influence of a node on its quilt (SWC Lemma 4.8; WSC Lemma 4.7 for quilts of one node).

        The left node counts twice: once for the transitions from it, once for the unknown law of the secret's node,
        which has mixed for at least as long.
        """
        return (0.0 if a is None else 2 * self.ratio(a)) + (0.0 if b is None else self.ratio(b))


def _gap(chain: Chain) -> float:
    """The larger of the gaps that are valid for the chain, rounded down."""
    gap = 2 * chain.reversible_eigengap() if chain.is_reversible() else chain.eigengap()
    return gap - 16 * chain.k * UNIT


def approx(mixing: Mixing, length: int | None, epsilon: float) -> LaplaceScale:
    """MQMApprox: as `exact`, with the influence bounded by the mixing alone (SWC Algorithm 4).

    On an endless stream all nodes have the same score. On a finite one `fast` finds the worst.
    """
    require_epsilon(epsilon)
    require_length(length)
    found = (
        _best_quilt(mixing, EndDistances(None, None), epsilon)
        if length is None
        else fast(mixing, length, epsilon)
    )
    return LaplaceScale("mqm-approx", found.score, found.quilt)


def fast(mixing: Mixing, length: int, epsilon: float) -> ScoredQuilt:
    """The worst node, searched from the middle outwards (WSC Algorithm 3, Claims B.1 and B.2; SWC Lemma C.9).

    The bound on the influence does not depend on the node. A best quilt with two nodes, or with none, therefore bounds
    the score of every node; one without a right node that of all nodes further right, one without a left node that of
    all nodes further left.
    """
    i, seen, worst = max(1, length // 2), set[int](), ScoredQuilt(0.0, NO_QUILT)
    while i not in seen:
        seen.add(i)
        found = _best_quilt(mixing, EndDistances(i, length + 1 - i), epsilon)
        if found.score > worst.score:
            worst = found
        a, b = found.quilt
        if (a is None) == (b is None):
            break
        i += 1 if a is None else -1
    return worst


def half_budget_distance(mixing: Mixing, epsilon: float) -> int:
    """The distance a* at which a quilt with two nodes has an influence of at most ε/2 (SWC Lemma 4.9).

    No quilt with 4a* near instants is better. On chains of 8a* instants or more, the best quilt of the middle node
    therefore has two nodes, and the middle node is the worst.
    """
    # (e^(ε/6)+1)/(e^(ε/6)−1) = 1/tanh(ε/12)
    return 2 * math.ceil(-math.log(math.tanh(epsilon / 12) * mixing.pi_min) / mixing.gap)


def _best_quilt(mixing: Mixing, sides: EndDistances, epsilon: float) -> ScoredQuilt:
    """The quilt with the lowest score n/(ε−e), where n and e are sums of one term per side.

    Dinkelbach's method, exact after finitely many iterations: for a trial score s the quilt that minimises n + s·e is
    found for each side separately. If its score is lower, it is the next trial; otherwise n ≥ s·(ε−e) for all quilts,
    so none is better than s.
    """
    quilt = sides.clip(half_budget_distance(mixing, epsilon), half_budget_distance(mixing, epsilon))
    best = ScoredQuilt(score(sides, mixing.influence, epsilon, quilt), quilt)
    while True:
        quilt = _best_end(mixing, sides.left, 2 * best.score), _best_end(mixing, sides.right, best.score)
        trial = ScoredQuilt(score(sides, mixing.influence, epsilon, quilt), quilt)
        if trial.score >= best.score:
            return best
        best = trial


def _best_end(mixing: Mixing, end: int | None, weight: float) -> int | None:
    """The distance t that minimises t + weight·ratio(t); None, at cost `end`, for no node on that side.

    The sum is convex in t with its minimum where weight·gap·Δ = 1−Δ²: the best integer is next to it.
    """
    slope = weight * mixing.gap
    delta = 2 / (slope + math.hypot(slope, 2))
    below = math.floor(-2 * math.log(mixing.pi_min * delta) / mixing.gap)
    nearest = [max(1, t) for t in (below, below + 1)]
    options: list[int | None] = list(nearest)
    if end is not None:
        options = [min(t, end - 1) for t in nearest if end > 1] + [None]
    return min(options, key=lambda t: cast(int, end) if t is None else t + weight * mixing.ratio(t))
