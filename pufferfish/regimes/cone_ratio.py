"""The largest ratio of two means over all functions that vary by at most e^D, exactly, for up to six states.

Let a and b be laws on the states, and g any function with g(u) ≤ W(u,v)·g(v), W = e^D. For a number λ the states with
a(u) > λ·b(u) are *sources*, the others *sinks*. (a − λb)·g grows with g at a source and falls with g at a sink; so
where it is largest each source is as high as the sinks allow, g(u) = min_v W(u,v)·g(v). What is left is a concave
function of the sinks' values that is largest where the tight inequalities join all states to a tree, and there are few
such trees. If λ is below the largest ratio the best of them has a larger ratio than λ; otherwise none has, and λ is an
upper bound (docs/theory-regime-sets.md, Lemma R11).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul

from hushmq.pufferfish.regimes.regime_chain import Matrix, Vector

Edges = list[tuple[int, int]]

_ROUNDING = 1e-13
"""Relative: exceeds the rounding errors of the sums of one ratio, all of whose terms are positive."""

_STILL = 1e-14
_TRIES = 40


@dataclass(frozen=True, slots=True)
class Ratio:
    """The largest a·g / b·g, rounded up, and where it is attained: g, and the tight inequalities g(u) = W(u,v)·g(v)."""

    value: float
    g: Vector
    edges: Edges


def largest_ratio(a: Sequence[float], b: Sequence[float], W: Matrix, guess: float = 1.0) -> Ratio:
    """The largest a·g / b·g; `guess` is where the search begins. ValueError if it does not end."""
    states = range(len(a))
    value, sources = guess, [u for u in states if a[u] > guess * b[u]]
    for attempt in range(_TRIES):
        # Only constants are left where no state is a source.
        best, g, joined, sinks = 1.0, [1.0] * len(a), [], []
        if sources:
            sinks = [v for v in states if v not in sources]
            for tried, edges in _trees(sources, sinks, W):
                ratio = sum(map(mul, a, tried)) / sum(map(mul, b, tried))
                if ratio > best:
                    best, g, joined = ratio, tried, edges
        now = [u for u in states if a[u] > best * b[u]]
        # The same sources have the same trees: none of them exceeds the best. Nor does any where λ does not rise,
        # and after the first attempt λ is attained.
        still = best <= value * (1 + _STILL) and (attempt or best >= value * (1 - _STILL))
        if now == sources or still:
            found = best if now == sources else max(best, value)
            return Ratio(found * (1 + _ROUNDING), g, _tree(g, joined, sources, sinks, W))
        value, sources = best, now
    raise ValueError("the largest ratio of a step was not found")


def _trees(sources: list[int], sinks: list[int], W: Matrix) -> Iterator[tuple[Vector, Edges]]:
    """Functions with tight inequalities that join all states, the best one among them, and some of these."""
    size = len(W)
    if len(sinks) <= 1:
        yield _raised([1.0] * size, sources, sinks, W), []
    elif len(sources) <= 2:
        # From the sources: each sink is as low as they allow.
        for pivot in sinks if len(sources) == 2 else sinks[:1]:
            g = [1.0] * size
            for u in sources:
                g[u] = W[u][pivot]
            for v in sinks:
                g[v] = max([g[u] / W[u][v] for u in sources])
            yield g, [(u, pivot) for u in sources]
    elif len(sinks) == 2:
        v, w = sinks
        for u in sources:
            g = [1.0] * size
            g[w] = W[u][v] / W[u][w]
            yield _raised(g, sources, sinks, W), [(u, v), (u, w)]
    else:
        for middle in range(3):
            v, first, last = sinks[middle], sinks[middle - 1], sinks[middle - 2]
            for u in sources:
                for w in sources:
                    if u != w or middle == 0:
                        g = [1.0] * size
                        g[first], g[last] = W[u][v] / W[u][first], W[w][v] / W[w][last]
                        yield _raised(g, sources, sinks, W), [(u, v), (u, first), (w, v), (w, last)]


def _raised(g: Vector, sources: list[int], sinks: list[int], W: Matrix) -> Vector:
    """Every source as high as the sinks allow."""
    for u in sources:
        row = W[u]
        g[u] = min([row[v] * g[v] for v in sinks], default=1.0)
    return g


def _tree(g: Vector, joined: Edges, sources: list[int], sinks: list[int], W: Matrix) -> Edges:
    """The tight inequalities that join all states, these among them."""
    found = list(dict.fromkeys(joined))
    if not sinks or not sources:
        return []
    if len(sources) <= 2 and len(sinks) > 1:
        known = {v for _, v in found}
        found += [(max(sources, key=lambda u: g[u] / W[u][v]), v) for v in sinks if v not in known]
        return found
    done = {u for u, _ in found}
    found += [(u, min(sinks, key=lambda v: W[u][v] * g[v])) for u in sources if u not in done]
    return found
