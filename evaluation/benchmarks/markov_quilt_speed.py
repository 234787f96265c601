"""The Markov quilt mechanism on 51 states: ours against the papers' algorithms as they are written down.

`plain_exact` and `plain_approx` follow SWC's Algorithms 3 and 4 line by line: all quilts up to a given size, each with
its influence computed anew. They are oracles in the tests, too. With 51 states the plain exact algorithm takes
minutes; there its time is that of a sample of its quilts, times their number, and the row says so. As in SWC
section 5.3 it looks at quilts up to the size of the one MQMApprox picks.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.laplace_scale import Quilt
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.markov_quilt import Mixing

T = TypeVar("T")

STATES = 51
LENGTH = 10**6
SAMPLE = 400


def household(k: int = STATES) -> Chain:
    """A chain much like a house's power use: it mostly stays near its level, and now and then jumps low."""
    level = np.arange(k)
    near = np.exp(-np.abs(level[:, None] - level[None, :]) / 1.2)
    near /= near.sum(axis=1, keepdims=True)
    usual = np.exp(-level / 8.0)
    usual /= usual.sum()
    return Chain(0.97 * near + 0.03 * usual[None, :])


def plain_exact(chain: Chain, length: int, epsilon: float, largest: int | None = None) -> tuple[float, Quilt]:
    """SWC Algorithm 3 for one chain: for all nodes the best of all quilts that leave at most `largest` near.

    On a long stationary chain all nodes away from the ends are alike, and one of them is enough.
    """
    reach = length if largest is None else min(length, largest)
    powers = [np.eye(chain.k)]
    for _ in range(reach):
        powers.append(powers[-1] @ chain.transition)
    alike = chain.initial is None and length > 2 * reach
    laws = [chain.start()]
    for _ in range(0 if alike else length - 1):
        laws.append(laws[-1] @ chain.transition)
    scores = []
    for i in [length // 2] if alike else range(1, length + 1):
        best: tuple[float, Quilt] = (length / epsilon, (None, None))
        for quilt in plain_quilts(i, length, reach):
            law, before = (laws[0], laws[0]) if alike else (laws[i - 1], laws[i - 1 - (quilt[0] or 0)])
            e = plain_influence(powers, quilt, law, before)
            best = min(best, _scored(i, length, epsilon, quilt, e), key=lambda one: one[0])
        scores.append(best)
    return max(scores, key=lambda one: one[0])


def plain_quilts(i: int, length: int, reach: int) -> Iterator[Quilt]:
    """All quilts of SWC Lemma 4.6 for node i but the trivial one, with at most `reach` instants near."""
    for a in [None, *range(1, min(i, reach + 1))]:
        for b in [None, *range(1, min(length - i + 1, reach - (a or i) + 2))]:
            if (a, b) != (None, None) and _near(i, length, (a, b)) <= reach:
                yield a, b


def plain_influence(powers: list[Matrix], quilt: Quilt, law: Vector, before: Vector) -> float:
    """SWC equation 5 for one quilt: over all pairs of states and all states of both ends."""
    a, b = quilt
    total = np.zeros((len(law), len(law)))
    if b is not None:
        total = total + _largest_ratio(powers[b])
    if a is not None:
        joint = (before[:, None] * powers[a]).T
        with np.errstate(invalid="ignore"):
            total = total + _largest_ratio(joint / law[:, None])
    possible = law > 0
    return max(0.0, float(total[np.ix_(possible, possible)].max()))


def plain_approx(mixing: Mixing, length: int, epsilon: float) -> tuple[float, Quilt]:
    """SWC Algorithm 4 as Lemma 4.9 shortens it: the middle node, and all quilts that leave at most 4a* near."""
    i, largest = (length + 1) // 2, 4 * mqm.half_budget_distance(mixing, epsilon)
    best: tuple[float, Quilt] = (length / epsilon, (None, None))
    for a, b in plain_quilts(i, length, largest):
        best = min(best, _scored(i, length, epsilon, (a, b), mixing.influence(a, b)), key=lambda one: one[0])
    return best


def run() -> list[Row]:
    """Exact and approximate, at the aimed size and where the plain algorithm can be run in full."""
    chain = household()
    ours, scale = _timed(partial(mqm.exact, [chain], LENGTH, 1.0))
    mixing = Mixing.of([chain])
    largest = _size(mqm.approx(mixing, LENGTH, 1.0).quilt)
    quilts = sum(1 for _ in plain_quilts(LENGTH // 2, LENGTH, largest))
    each = _time_per_quilt(chain, largest)
    small = household(8)
    ours_small, exact_small = _timed(partial(mqm.exact, [small], LENGTH, 1.0))
    largest_small = _size(mqm.approx(Mixing.of([small]), LENGTH, 1.0).quilt)
    plain_small, found_small = _timed(partial(plain_exact, small, LENGTH, 1.0, largest_small))
    ours_approx, approx = _timed(partial(mqm.approx, mixing, LENGTH, 1.0))
    plain_approx_time, found_approx = _timed(partial(plain_approx, mixing, LENGTH, 1.0))
    if not math.isclose(exact_small.scale, found_small[0], rel_tol=1e-9):
        raise RuntimeError(f"the exact mechanisms disagree: {exact_small.scale} and {found_small[0]}")
    if not math.isclose(approx.scale, found_approx[0], rel_tol=1e-9):
        raise RuntimeError(f"the approximate mechanisms disagree: {approx.scale} and {found_approx[0]}")
    return [
        Row(
            f"MQMExact, {STATES} states, length {LENGTH}, scale {scale.scale:.1f}",
            ours,
            "s",
            f"SWC Algorithm 3: {SAMPLE} of its {quilts} quilts timed, times their number ({each * quilts:.0f} s)",
            each * quilts / ours,
            "≤ 2 s (the paper: 282 s)",
        ),
        Row(
            f"MQMExact, {small.k} states, length {LENGTH}, scale {exact_small.scale:.1f}",
            ours_small,
            "s",
            f"SWC Algorithm 3 in full ({plain_small:.2f} s)",
            plain_small / ours_small,
            "",
        ),
        Row(
            f"MQMApprox, {STATES} states, length {LENGTH}, scale {approx.scale:.1f}",
            ours_approx,
            "s",
            f"SWC Algorithm 4 with Lemma 4.9, in full ({plain_approx_time:.2f} s)",
            plain_approx_time / ours_approx,
            "",
        ),
    ]


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def _time_per_quilt(chain: Chain, largest: int) -> float:
    """The mean time of one quilt of SWC Algorithm 3, its powers already stored, over quilts spread evenly."""
    rng = np.random.default_rng(3)
    distances = rng.integers(1, largest // 2, size=(SAMPLE, 2)).tolist()
    powers = {h: chain.power(h) for pair in distances for h in pair}
    table = [powers.get(h, chain.transition) for h in range(largest)]
    law = chain.stationary()
    begin = time.perf_counter()
    for a, b in distances:
        plain_influence(table, (a, b), law, law)
    return (time.perf_counter() - begin) / SAMPLE


def _size(quilt: Quilt) -> int:
    return (quilt[0] or 0) + (quilt[1] or 0) - 1


def _scored(i: int, length: int, epsilon: float, quilt: Quilt, e: float) -> tuple[float, Quilt]:
    return (_near(i, length, quilt) / (epsilon - e) if e < epsilon else math.inf), quilt


def _near(i: int, length: int, quilt: Quilt) -> int:
    a, b = quilt
    return (i if a is None else a) + (length - i + 1 if b is None else b) - 1


def _largest_ratio(rows: Matrix) -> Matrix:
    """For each pair of rows the largest log-ratio; an outcome that the first cannot have does not count."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = rows[:, None, :] / rows[None, :, :]
        ratios[np.isnan(ratios)] = 0.0
        return np.asarray(np.log(ratios.max(axis=2)))
