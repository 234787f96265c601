"""The tilted quilt: ours against the linear programs of its definition, and timelines of k states.

`plain_loss` is docs/theory-k.md, Theorem 4 as one writes it down: from R = 0, replace the bound of each pair of states
by the value of a linear program, solved by scipy's HiGHS, until nothing moves. The scale is then bisected. With 51
states one round has 5100 programs of 51 variables; there a sample of programs is timed, times the least number that
can be enough, and the row says so. Where both run in full they are checked to agree: the plain one ends a little below,
where it stops, ours a little above, where it is certified.

Times are processor seconds, the least of several, so that other work on the machine does not count.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from scipy.optimize import linprog

from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.calibration_speed import fastest
from hushmq.evaluation.benchmarks.markov_quilt_speed import household
from hushmq.pufferfish.quilt.chain_timeline import ChainTimeline, price
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix, Vector
from hushmq.pufferfish.quilt.tilted_quilt import loss, tilted_quilt_scale
from hushmq.pufferfish.timeline.entry import Entry

EPSILON = 1.0
STATES = 51
SAMPLE = 5
STILL = 1e-7
"""The change of all bounds at which the iteration stops."""

BISECTIONS = 20
"""Bisection steps for a scale of six digits."""

TICKS = 10**6


def largest_ratio(a: Vector, b: Vector, D: Matrix) -> float:
    """The largest log a·g / b·g over g with g(u) ≤ e^{D(u,v)}·g(v), as a linear program with b·g = 1."""
    k = len(a)
    u, v = np.nonzero(~np.eye(k, dtype=bool))
    rows = np.zeros((len(u), k))
    rows[np.arange(len(u)), u] = 1.0
    rows[np.arange(len(u)), v] = -np.exp(D[u, v])
    solved = linprog(-a, rows, np.zeros(len(u)), b[None, :], [1.0], method="highs")
    return math.log(-solved.fun)


def plain_side(P: Matrix, tau: float) -> tuple[Matrix, int]:
    """R of one side by iteration, and the number of iterations."""
    k = len(P)
    R, moved, rounds = np.zeros((k, k)), math.inf, 0
    while moved > STILL:
        D = tau * (1 - np.eye(k)) + R
        step = np.array(
            [[largest_ratio(P[x], P[y], D) if x != y else 0.0 for y in range(k)] for x in range(k)]
        )
        R, moved, rounds = step, float(np.abs(step - R).max()), rounds + 1
    return R, rounds


def plain_loss(chain: Chain, tau: float) -> tuple[float, int]:
    """The loss of tilt τ on an endless stream, and the number of linear programs solved."""
    (left, one), (right, other) = (
        plain_side(P, tau) for P in (chain.reversal().transition, chain.transition)
    )
    return tau + float((left + right).max()), (one + other) * chain.k * (chain.k - 1)


def plain_timeline(chain: Chain, taus: Sequence[float]) -> float:
    """The largest loss of a history, tick by tick with linear programs."""
    k = chain.k
    sides = []
    for P, tilts in ((chain.reversal().transition, taus), (chain.transition, taus[::-1])):
        R, side = np.zeros((k, k)), []
        for tau in tilts:
            side.append(R)
            D = tau * (1 - np.eye(k)) + R
            R = np.array(
                [[largest_ratio(P[x], P[y], D) if x != y else 0.0 for y in range(k)] for x in range(k)]
            )
        sides.append(side)
    left, right = sides[0], sides[1][::-1]
    return max(tau + float((a + c).max()) for tau, a, c in zip(taus, left, right, strict=True))


def windows(count: int) -> list[Entry]:
    """A sanitized stream of 10⁶ ticks, and `count` windows of an hour with different tilts."""
    rng = random.Random(count)
    every = TICKS // count
    entries = [Entry(1, TICKS, 0.02, 0.02)]
    for n in range(count):
        tilt = rng.uniform(0.01, 0.05)
        entries.append(Entry(1 + n * every, min(TICKS, 3_600 + n * every), tilt, tilt))
    return entries


def run() -> Iterator[Row]:
    """Scales at 4 and at 51 states, and a history of 10⁶ ticks of 4 states."""
    yield from _small()
    yield _large()
    yield from _timeline()


def _small() -> list[Row]:
    chain = household(4)
    ours, found = fastest(partial(tilted_quilt_scale, [chain], None, EPSILON), rounds=10)
    tau = 1 / found.scale
    seconds, (plain, programs) = fastest(partial(plain_loss, chain, tau), rounds=1)
    if not -1e-4 * EPSILON <= plain - loss([chain], None, tau) <= 1e-9:
        raise RuntimeError(f"the losses disagree: {loss([chain], None, tau)} and by linear programs {plain}")
    return [
        Row(
            f"tilted quilt, 4 states, scale {found.scale:.2f}",
            ours * 1e3,
            "ms",
            f"bisection in {BISECTIONS} steps of {programs} linear programs, one step timed "
            f"({BISECTIONS * seconds:.0f} s)",
            BISECTIONS * seconds / ours,
            "≤ 20 ms",
        )
    ]


def _large() -> Row:
    chain = household(STATES)
    ours, found = fastest(partial(tilted_quilt_scale, [chain], None, EPSILON), rounds=2)
    tau = 1 / found.scale
    P, D = chain.transition, tau * (1 - np.eye(STATES))
    rng = random.Random(STATES)
    pairs = [rng.sample(range(STATES), 2) for _ in range(SAMPLE)]
    seconds, _ = fastest(lambda: [largest_ratio(P[x], P[y], D) for x, y in pairs], rounds=1)
    each = seconds / SAMPLE
    # An iteration raises R by at most τ, so both sides together take at least (L + R)/τ iterations.
    rounds = math.ceil(EPSILON / tau) - 1
    total = each * STATES * (STATES - 1) * rounds * BISECTIONS
    return Row(
        f"tilted quilt, {STATES} states, scale {found.scale:.1f}",
        ours,
        "s",
        f"bisection with linear programs: {SAMPLE} timed ({each * 1e3:.0f} ms each), times their number in "
        f"{rounds} rounds and {BISECTIONS} steps ({total / 3600:,.0f} h)",
        total / ours,
        "≤ 2 s",
    )


def _timeline() -> list[Row]:
    chain, sample = household(4), 10
    seconds, plain = fastest(partial(plain_timeline, chain, [0.3] * sample), rounds=1)
    same = price([Entry(1, sample, 0.3, 0.3)], [chain]).epsilon
    if not math.isclose(plain, same, rel_tol=1e-6):
        raise RuntimeError(f"the prices disagree: {same} and tick by tick {plain}")
    slow = seconds * TICKS / sample
    against = f"linear programs at every tick ({slow / 3600:.0f} h: {sample} ticks timed)"
    rows = []
    for count in (10, 100):
        entries = windows(count)
        ours, _ = fastest(partial(price, entries, [chain]), rounds=1)
        name = f"4 states, 10⁶ ticks, {count} different windows"
        rows.append(Row(f"{name}, from scratch", ours, "s", against, slow / ours))
        rows.append(_one_more(name, ChainTimeline([chain], entries), against, slow))
    return rows


def _one_more(name: str, history: ChainTimeline, against: str, slow: float) -> Row:
    # A different tilt each time, because prices are cached.
    tilts = itertools.count(0.03, 1e-4)

    def price_another() -> None:
        tilt = next(tilts)
        history.price_with(Entry(500_000, 503_599, tilt, tilt))

    seconds, _ = fastest(price_another, rounds=3)
    return Row(f"{name}, one more", seconds * 1e3, "ms", against, slow / seconds)
