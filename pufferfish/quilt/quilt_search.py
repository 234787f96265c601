"""The searches of the Markov quilt mechanism on a chain: the best quilt of a node, and the worst node.

Both return the result of a complete enumeration and skip only quilts and nodes that cannot change it. Two facts justify
this, both from the data processing inequality for the max-divergence:

- The influence of a node on its quilt never rises when an end of the quilt moves away or leaves the chain.
- The score of a quilt does not rise at later instants if the set of possible laws there is no larger.

Distances are counted from the secret's instant. A quilt without a node on one side has the instants up to that end of
the chain near, and no influence from that side (the imaginary nodes of WSC Appendix B.2).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from hushmq.pufferfish.quilt.laplace_scale import NO_QUILT, Quilt

LARGEST_POWER = 2**26
"""The largest power of a chain that is computed in double precision; a chain that needs more is refused."""

SCORE_TOLERANCE = 1e-12
"""Scores within this relative distance count as equal; the larger of them is returned."""

Influence = Callable[[int | None, int | None], float]
"""The max-influence of a node on its quilt at two distances (None: no node there); non-increasing in both."""


@dataclass(frozen=True, slots=True)
class ScoredQuilt:
    """A quilt and its score; the score of the best quilt is the Laplace scale that the node requires."""

    score: float
    quilt: Quilt


@dataclass(frozen=True, slots=True)
class EndDistances:
    """The distances from a node to the first instants beyond both ends of the chain; None if it is endless there."""

    left: int | None
    right: int | None

    def clip(self, a: int | None, b: int | None) -> Quilt:
        """The quilt with nodes at these distances, without those beyond the ends of the chain."""
        return _inside(a, self.left), _inside(b, self.right)

    def near(self, quilt: Quilt) -> float:
        """The number of instants that the quilt leaves near the node, itself included (SWC Lemma 4.6)."""
        left = self.left if quilt[0] is None else quilt[0]
        right = self.right if quilt[1] is None else quilt[1]
        return math.inf if left is None or right is None else left + right - 1


def score(ends: EndDistances, influence: Influence, epsilon: float, quilt: Quilt) -> float:
    """|near|/(ε−e); infinite if the influence e is at least ε (SWC Algorithm 2)."""
    near = ends.near(quilt)
    e = influence(*quilt) if near < math.inf else math.inf
    return near / (epsilon - e) if e < epsilon else math.inf


def best_quilt(ends: EndDistances, influence: Influence, epsilon: float) -> ScoredQuilt:
    """The quilt with the lowest score over all distances, by branch and bound.

    Among distances a1 ≤ a ≤ a2, b1 ≤ b ≤ b2 the number of near instants is least at (a1, b1) and the influence at
    (a2, b2), so every score is at least (a1+b1−1)/(ε−e(a2,b2)). Rectangles are split in the order of their bounds until
    no bound is below the best score. Since e ≥ 0, distances of ε·score or more are excluded from the start.
    """
    best = _first_finite_quilt(ends, influence, epsilon)
    if math.isinf(best.score):
        return best
    far = math.ceil(best.score * epsilon) + 1
    corner = (_capped(far, ends.left), _capped(far, ends.right))
    rectangles = [(0.0, 1, corner[0], 1, corner[1])]
    while rectangles:
        bound, a1, a2, b1, b2 = heapq.heappop(rectangles)
        if bound >= best.score:
            break
        for rectangle in _halves(a1, a2, b1, b2):
            quilt = ends.clip(rectangle[1], rectangle[3])
            e = influence(*quilt)
            if e >= epsilon:
                continue
            candidate = ends.near(quilt) / (epsilon - e)
            if candidate < best.score:
                best = ScoredQuilt(candidate, quilt)
            bound = (rectangle[0] + rectangle[2] - 1) / (epsilon - e)
            if bound < best.score and (rectangle[0], rectangle[2]) != (rectangle[1], rectangle[3]):
                heapq.heappush(rectangles, (bound, *rectangle))
    return best


class NodeInfluences(Protocol):
    """The influences of the nodes 1, 2, … of a chain on their quilts."""

    def at(self, i: int) -> Influence:
        """The influence of node i on its quilts."""
        ...

    def from_on(self, i: int) -> Influence | None:
        """Upper bound on the influence of node i and all later ones, for quilts with a left node; None if unknown."""
        ...

    def at_infinity(self) -> Influence | None:
        """The limit of the influence of node i as i grows; None if there is no limit."""
        ...


def worst_node(influences: NodeInfluences, length: int | None, epsilon: float) -> ScoredQuilt:
    """The largest score over all nodes, each with its best quilt (SWC Algorithm 3).

    A node is searched only if none of the quilts found so far has a score at or below the largest score there; the
    search ends when one of them has so for all later nodes. The result exceeds the maximum by at most
    `SCORE_TOLERANCE`, relatively, and is never below it.
    """
    quilts_found: list[Quilt] = []
    worst = ScoredQuilt(0.0, NO_QUILT)

    def search(ends: EndDistances, influence: Influence) -> None:
        nonlocal worst
        found = best_quilt(ends, influence, epsilon)
        quilts_found.append(found.quilt)
        if found.score > worst.score:
            worst = found

    def settled(ends: EndDistances, influence: Influence, candidates: list[Quilt]) -> bool:
        nonlocal worst
        for a, b in reversed(candidates):
            quilt = ends.clip(a, b)
            reached = score(ends, influence, epsilon, quilt)
            if reached <= worst.score * (1 + SCORE_TOLERANCE):
                worst = ScoredQuilt(max(reached, worst.score), worst.quilt)
                return True
        return False

    middle = None if length is None else (length + 1) // 2
    reference = influences.at_infinity() if middle is None else influences.at(middle)
    if reference is None:
        raise ValueError(
            "the chain is reducible or periodic: on an endless stream the past is never forgotten and no noise "
            "suffices; give a finite length"
        )
    search(_end_distances(middle, length), reference)
    if math.isinf(worst.score):
        raise ValueError(
            f"the chain forgets too slowly: no quilt within {LARGEST_POWER} instants has an influence below epsilon "
            f"{epsilon:g}; give a larger epsilon or a finite length"
        )
    for first, last in _blocks(length):
        later = influences.from_on(first)
        inner: list[Quilt] = [(a, b) for a, b in quilts_found if a is not None and a < first]
        if later is not None and settled(_end_distances(first, length), later, inner):
            break
        for i in _midpoints(first, last):
            ends, influence = _end_distances(i, length), influences.at(i)
            if not settled(ends, influence, quilts_found):
                search(ends, influence)
    return worst


def _end_distances(i: int | None, length: int | None) -> EndDistances:
    return EndDistances(i, None if length is None or i is None else length + 1 - i)


def _inside(distance: int | None, end: int | None) -> int | None:
    return None if distance is None or (end is not None and distance >= end) else distance


def _capped(far: int, end: int | None) -> int:
    return far if end is None else min(far, end)


def _first_finite_quilt(ends: EndDistances, influence: Influence, epsilon: float) -> ScoredQuilt:
    """The first of the quilts at distances 1, 2, 4, … on both sides with a finite score, or the trivial quilt."""
    h = 1
    while h <= LARGEST_POWER and ends.clip(h, h) != NO_QUILT:
        quilt = ends.clip(h, h)
        reached = score(ends, influence, epsilon, quilt)
        if reached < math.inf:
            return ScoredQuilt(reached, quilt)
        h *= 2
    return ScoredQuilt(ends.near(NO_QUILT) / epsilon, NO_QUILT)


def _halves(a1: int, a2: int, b1: int, b2: int) -> list[tuple[int, int, int, int]]:
    """The two halves of a rectangle across its longer side; a rectangle of one point is returned as it is."""
    if a2 - a1 >= b2 - b1 and a2 > a1:
        middle = (a1 + a2) // 2
        return [(a1, middle, b1, b2), (middle + 1, a2, b1, b2)]
    if b2 > b1:
        middle = (b1 + b2) // 2
        return [(a1, a2, b1, middle), (a1, a2, middle + 1, b2)]
    return [(a1, a2, b1, b2)]


def _blocks(length: int | None) -> Iterator[tuple[int, int]]:
    """The ranges 1; 2; 3 to 4; 5 to 8; … up to the length."""
    first, last = 1, 1
    while length is None or first <= length:
        yield first, last if length is None else min(last, length)
        first, last = last + 1, 2 * last


def _midpoints(first: int, last: int) -> Iterator[int]:
    """Every number of a range once, in breadth-first order of bisection."""
    ranges = [(first, last)]
    for low, high in ranges:
        if low <= high:
            middle = (low + high) // 2
            yield middle
            ranges += [(low, middle - 1), (middle + 1, high)]
