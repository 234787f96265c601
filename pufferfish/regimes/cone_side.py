"""What one side of an instant tells about a chain with regimes: a matrix R over pairs of its 2K states, proved.

Let R(x,y) bound log E[ℓ | Y=x] / E[ℓ | Y=y] for what lies on the side. A published instant with tilt matrix T and the
kernel P from the last instant to it turn R into F(R)(x,y) = log max { P(x,·)·g / P(y,·)·g : g(u) ≤ e^D(u,v)·g(v) },
D = T + R. An endless side is bounded by every R ≥ 0 with F(R) ≤ R (docs/theory-regime-sets.md, Theorem R12). Newton's
method finds the least one, a little is added, and what is returned has been checked.

Plain Python throughout: a device does the same for the setting that it is told.
"""

from __future__ import annotations

import math
from functools import cached_property

from hushmq.pufferfish.regimes.cone_ratio import Ratio, largest_ratio
from hushmq.pufferfish.regimes.regime_chain import Matrix, Vector

HIGHEST = 300.0
"""Nats: beyond it e^D leaves the range in which ratios are exact, and nothing is proved."""

_ROUNDING = 1e-12
"""Added to every bound: exceeds the rounding errors of kernels, logarithms and exponentials."""

_NEWTON_STEPS = 30
_SLACK = 1e-9
"""Relative and in nats: what is added to the least fixed point, so that its proof succeeds."""

_CONVERGED = 1e-11

_WIDENINGS = 3
"""How often a bound is raised a little, so that it is kept by further steps, before the most is taken."""


Attained = tuple[Vector, Vector, Ratio]
"""Two rows, and where the largest ratio of their means is attained."""


class ConeStep:
    """One step of a kernel, seen from every pair of states."""

    def __init__(self, kernel: Matrix) -> None:
        self.kernel = kernel
        size = len(kernel)
        self.pairs = [(x, y) for x in range(size) for y in range(size) if x != y]

    @cached_property
    def forgetting(self) -> float:
        """κ: raising D everywhere by c raises no bound by more than κ·c."""
        if min(map(min, self.kernel)) <= 0.0:
            return 1.0
        widest = 0.0
        for x, y in self.pairs:
            shares = [one / other for one, other in zip(self.kernel[x], self.kernel[y], strict=True)]
            widest = max(widest, math.log(max(shares) / min(shares)))
        return min(1.0, math.tanh(widest / 4) * (1 + _ROUNDING))

    def bound(self, D: Matrix, near: Matrix | None = None) -> Matrix:
        """What varies by at most e^D after the step, seen from before it; `near` is a guess."""
        return self._solved(D, near)[0]

    def improved(self, tilt: Matrix, R: Matrix) -> tuple[float, Matrix, Vector]:
        """One Newton step towards R = F(R): |F(R) − R|, the new R, and how R grows with a slack everywhere."""
        now, ratios = self._solved(total(tilt, R), R)
        number = {pair: place for place, pair in enumerate(self.pairs)}
        count = len(self.pairs)
        rows = []
        for place, (x, y) in enumerate(self.pairs):
            row = [0.0] * (count + 2)
            for edge, slope in _slopes(*ratios[place]):
                row[number[edge]] -= slope
            row[place] += 1.0
            row[count], row[count + 1] = now[x][y] - R[x][y], 1.0
            rows.append(row)
        far = max(abs(row[count]) for row in rows)
        _eliminate(rows)
        moved = [list(one) for one in R]
        most = HIGHEST - max(
            map(max, tilt)
        )  # a step that is too long must leave R + tilt where the next one can be made
        for (x, y), row in zip(self.pairs, rows, strict=True):
            moved[x][y] = min(max(0.0, moved[x][y] + row[count]), most)
        return far, moved, [max(1.0, row[count + 1]) for row in rows]

    def _solved(self, D: Matrix, near: Matrix | None) -> tuple[Matrix, list[Attained]]:
        if max(map(max, D)) > HIGHEST:
            raise ValueError("the tilts are too large for a bound")
        W = [[math.exp(one) for one in row] for row in D]
        found = [[0.0] * len(D) for _ in D]
        ratios = []
        for x, y in self.pairs:
            found[x][y], attained = self._largest(x, y, W, 0.0 if near is None else near[x][y])
            ratios.append(attained)
        return found, ratios

    def _largest(self, x: int, y: int, W: Matrix, near: float) -> tuple[float, Attained]:
        """The bound of one pair, rounded up, and where it is attained; `near` is a guess."""
        ratio = largest_ratio(self.kernel[x], self.kernel[y], W, math.exp(near))
        return math.log(ratio.value) + _ROUNDING, (self.kernel[x], self.kernel[y], ratio)


def endless_side(step: ConeStep, tilt: Matrix, near: Matrix) -> Matrix:
    """An R with F(R) ≤ R, checked; ValueError where none is found. `near` is a guess."""
    R = near
    for _ in range(_NEWTON_STEPS):
        far, R, growth = step.improved(tilt, R)
        if far < _CONVERGED * (1 + max(map(max, R))):
            break
    for more in (1, 10, 100, 1000):
        raised = [list(row) for row in R]
        for (x, y), grows in zip(step.pairs, growth, strict=True):
            raised[x][y] += more * _SLACK * grows
        if is_bound(step, tilt, raised):
            return raised
    raise ValueError("no bound of what the regimes tell was proved for these tilts")


def is_bound(step: ConeStep, tilt: Matrix, R: Matrix) -> bool:
    """Whether F(R) ≤ R: whether R bounds an endless side with this tilt matrix at every published instant."""
    found = step.bound(total(tilt, R), R)
    return all(found[x][y] <= R[x][y] for x, y in step.pairs)


def kept_above(step: ConeStep, tilt: Matrix, R: Matrix, most: Matrix) -> Matrix:
    """A bound of at least R that no number of further steps exceeds, at most `most`, which is one itself.

    Where two bounds are kept, so is the smaller of them pair by pair: a pair that was raised to `most` stays there.
    """
    found = [list(row) for row in R]
    for attempt in range(len(step.pairs)):
        beyond = step.bound(total(tilt, found), found)
        grown = [(x, y) for x, y in step.pairs if found[x][y] < min(beyond[x][y], most[x][y])]
        if not grown:
            return found
        for x, y in grown:
            more = 2 * beyond[x][y] - found[x][y] if attempt < _WIDENINGS else math.inf
            found[x][y] = min(more, most[x][y])
    return most


def total(one: Matrix, other: Matrix) -> Matrix:
    """The sum of two matrices."""
    return [
        [left + right for left, right in zip(*rows, strict=True)] for rows in zip(one, other, strict=True)
    ]


def _slopes(a: Vector, b: Vector, ratio: Ratio) -> list[tuple[tuple[int, int], float]]:
    """The derivative of the pair's bound with respect to D, by tight inequality.

    Raising D(u,v) raises g on the side of u of the tree that is left without that edge.
    """
    if not ratio.edges:
        return []
    left, right = ([part * g for part, g in zip(row, ratio.g, strict=True)] for row in (a, b))
    whole = math.fsum(left), math.fsum(right)
    rest = [one / whole[0] - other / whole[1] for one, other in zip(left, right, strict=True)]
    edges, found = list(ratio.edges), []
    while edges:
        ends = [state for edge in edges for state in edge]
        place, (u, v) = next(
            (place, edge)
            for place, edge in enumerate(edges)
            if 1 in (ends.count(edge[0]), ends.count(edge[1]))
        )
        if ends.count(u) == 1:
            found.append(((u, v), rest[u]))
            rest[v] += rest[u]
        else:
            found.append(((u, v), -rest[v]))
            rest[u] += rest[v]
        del edges[place]
    return found


def _eliminate(rows: list[Vector]) -> None:
    """Solve the equations whose last two columns are right-hand sides, in place."""
    size = len(rows)
    for place in range(size):
        pivot = max(range(place, size), key=lambda row: abs(rows[row][place]))
        rows[place], rows[pivot] = rows[pivot], rows[place]
        top = rows[place]
        scale = 1.0 / top[place]
        top[place:] = [one * scale for one in top[place:]]
        for row in range(size):
            factor = rows[row][place]
            if row != place and factor:
                mine = rows[row]
                mine[place:] = [
                    one - factor * other for one, other in zip(mine[place:], top[place:], strict=True)
                ]
