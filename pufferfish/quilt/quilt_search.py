"""The searches of the Markov quilt mechanism on a chain: the best quilt of a node, and the worst node.

Both return what a complete enumeration would, and leave out only what cannot matter. Two facts carry that, both
from the data processing inequality for the max-divergence:

- The influence of a node on its quilt never rises when an end of the quilt moves away, or leaves the chain.
- A quilt that has a score at one instant has none larger at later instants if the belief about those is no wider.

Distances count from the secret's instant. An end that lies beyond the chain is no node at all: it costs the instants
up to the chain's end, and influences nothing (the imaginary nodes of WSC Appendix B.2).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from hushmq.pufferfish.quilt.laplace_scale import NO_QUILT, Quilt

FARTHEST = 2**26
"""The longest power of a chain that double precision is trusted with; a chain that needs more is refused."""

SAME = 1e-12
"""Scores closer than this, relatively, count as equal; the larger of them is returned."""

Influence = Callable[[int | None, int | None], float]
"""The max-influence of one node on its quilt at two distances, None where there is no node; never rises in them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A quilt and its score; the score of the best quilt is the Laplace scale the node needs."""

    score: float
    quilt: Quilt


@dataclass(frozen=True, slots=True)
class Sides:
    """How many instants lead from a node to just beyond either end of the chain; None where there is no end."""

    left: int | None
    right: int | None

    def ends(self, a: int | None, b: int | None) -> Quilt:
        """The quilt with ends at these distances, without those that lie beyond the chain."""
        return _within(a, self.left), _within(b, self.right)

    def near(self, quilt: Quilt) -> float:
        """How many instants the quilt leaves near the node, itself included (SWC Lemma 4.6)."""
        left = self.left if quilt[0] is None else quilt[0]
        right = self.right if quilt[1] is None else quilt[1]
        return math.inf if left is None or right is None else left + right - 1


def score(sides: Sides, influence: Influence, epsilon: float, quilt: Quilt) -> float:
    """|near|/(ε−e), infinite where the influence e uses up ε (SWC Algorithm 2)."""
    near = sides.near(quilt)
    e = influence(*quilt) if near < math.inf else math.inf
    return near / (epsilon - e) if e < epsilon else math.inf


def best_quilt(sides: Sides, influence: Influence, epsilon: float) -> Found:
    """The quilt with the lowest score over all distances, by branch and bound.

    Among distances a1 ≤ a ≤ a2, b1 ≤ b ≤ b2 the count of near instants is least at (a1, b1) and the influence at
    (a2, b2), so no score there is below (a1+b1−1)/(ε−e(a2,b2)). Boxes are opened lowest bound first; the search ends
    when no open box can beat the best quilt. And since e ≥ 0, distances from ε·score on need not be opened at all.
    """
    best = _first(sides, influence, epsilon)
    if math.isinf(best.score):
        return best
    far = math.ceil(best.score * epsilon) + 1
    corner = (_least(far, sides.left), _least(far, sides.right))
    boxes = [(0.0, 1, corner[0], 1, corner[1])]
    while boxes:
        bound, a1, a2, b1, b2 = heapq.heappop(boxes)
        if bound >= best.score:
            break
        for box in _halves(a1, a2, b1, b2):
            quilt = sides.ends(box[1], box[3])
            e = influence(*quilt)
            if e >= epsilon:
                continue
            candidate = sides.near(quilt) / (epsilon - e)
            if candidate < best.score:
                best = Found(candidate, quilt)
            bound = (box[0] + box[2] - 1) / (epsilon - e)
            if bound < best.score and (box[0], box[2]) != (box[1], box[3]):
                heapq.heappush(boxes, (bound, *box))
    return best


class Belief(Protocol):
    """What a belief about a chain must tell for the search over its nodes, the first of which is 1."""

    def at(self, i: int) -> Influence:
        """The influence of node i on its quilts."""
        ...

    def from_on(self, i: int) -> Influence | None:
        """A bound on the influence of node i and of every later one, for quilts with a left end; None: unknown."""
        ...

    def at_infinity(self) -> Influence | None:
        """What the influence of node i tends to as i grows; None: it tends to nothing."""
        ...


def worst_node(belief: Belief, length: int | None, epsilon: float) -> Found:
    """The largest over all nodes of the best quilt's score (SWC Algorithm 3), in an order that settles most unseen.

    A node is searched only if no quilt found so far keeps it at or below the worst score, and the walk ends where one
    such quilt does so for all later nodes. The result is at most `SAME` above the truth, relatively, and never below.
    """
    known: list[Quilt] = []
    worst = Found(0.0, NO_QUILT)

    def search(sides: Sides, influence: Influence) -> None:
        nonlocal worst
        found = best_quilt(sides, influence, epsilon)
        known.append(found.quilt)
        if found.score > worst.score:
            worst = found

    def settled(sides: Sides, influence: Influence, candidates: list[Quilt]) -> bool:
        nonlocal worst
        for a, b in reversed(candidates):
            quilt = sides.ends(a, b)
            reached = score(sides, influence, epsilon, quilt)
            if reached <= worst.score * (1 + SAME):
                worst = Found(max(reached, worst.score), worst.quilt)
                return True
        return False

    middle = None if length is None else (length + 1) // 2
    limit = belief.at_infinity() if middle is None else belief.at(middle)
    if limit is None:
        raise ValueError(
            "the chain is reducible or periodic: on an endless stream the past is never forgotten and no noise "
            "suffices; give a finite length"
        )
    search(_sides(middle, length), limit)
    if math.isinf(worst.score):
        raise ValueError(
            f"the chain forgets too slowly: no quilt within {FARTHEST} instants has an influence below epsilon "
            f"{epsilon:g}; give a larger epsilon or a finite length"
        )
    for first, last in _blocks(length):
        later = belief.from_on(first)
        inner: list[Quilt] = [(a, b) for a, b in known if a is not None and a < first]
        if later is not None and settled(_sides(first, length), later, inner):
            break
        for i in _midpoints(first, last):
            sides, influence = _sides(i, length), belief.at(i)
            if not settled(sides, influence, known):
                search(sides, influence)
    return worst


def _sides(i: int | None, length: int | None) -> Sides:
    return Sides(i, None if length is None or i is None else length + 1 - i)


def _within(distance: int | None, end: int | None) -> int | None:
    return None if distance is None or (end is not None and distance >= end) else distance


def _least(far: int, end: int | None) -> int:
    return far if end is None else min(far, end)


def _first(sides: Sides, influence: Influence, epsilon: float) -> Found:
    """The first of the quilts at distances 1, 2, 4, … on both sides that has a score, or the trivial one."""
    h = 1
    while h <= FARTHEST and sides.ends(h, h) != NO_QUILT:
        quilt = sides.ends(h, h)
        reached = score(sides, influence, epsilon, quilt)
        if reached < math.inf:
            return Found(reached, quilt)
        h *= 2
    return Found(sides.near(NO_QUILT) / epsilon, NO_QUILT)


def _halves(a1: int, a2: int, b1: int, b2: int) -> list[tuple[int, int, int, int]]:
    """The box cut across its longer side; a box of one point is itself."""
    if a2 - a1 >= b2 - b1 and a2 > a1:
        middle = (a1 + a2) // 2
        return [(a1, middle, b1, b2), (middle + 1, a2, b1, b2)]
    if b2 > b1:
        middle = (b1 + b2) // 2
        return [(a1, a2, b1, middle), (a1, a2, middle + 1, b2)]
    return [(a1, a2, b1, b2)]


def _blocks(length: int | None) -> Iterator[tuple[int, int]]:
    """1; 2; 3 to 4; 5 to 8; … up to the length."""
    first, last = 1, 1
    while length is None or first <= length:
        yield first, last if length is None else min(last, length)
        first, last = last + 1, 2 * last


def _midpoints(first: int, last: int) -> Iterator[int]:
    """Every number of a range once, halves before quarters before eighths."""
    ranges = [(first, last)]
    for low, high in ranges:
        if low <= high:
            middle = (low + high) // 2
            yield middle
            ranges += [(low, middle - 1), (middle + 1, high)]
