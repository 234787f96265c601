"""Emission matrices for k states: B[u][z] is the probability of publishing z in state u.

The tilt `max_{u,v,z} log B[u][z]/B[v][z]` bounds the change of the log-likelihood of an output when its state changes.
Randomized response has the largest probability of the true state among all matrices of its tilt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations

from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.categorical.contraction_side import HIGHEST
from hushmq.pufferfish.categorical.transition_intervals import Rows

_SLACK = 2.0**-46
"""Exceeds the relative rounding error of the computations below."""

Emission = Sequence[Sequence[float]]


def randomized_response(k: int, tau: float) -> Rows:
    """Randomized response of k states with a tilt of at most τ: the true state is e^τ times as likely as any other."""
    if k < 2:
        raise ValueError(f"k is {k}; a stream has at least 2 states")
    if not 0.0 < tau < HIGHEST:
        raise ValueError(f"tau is {tau!r}; it must lie between 0 and {HIGHEST:g}")
    # Rounding may raise the probability of the true state: reduce τ by as much.
    gain = math.exp(tau * (1 - 2 * _SLACK) - 2 * _SLACK)
    lie = 1 / (k - 1 + gain)
    return tuple(tuple(lie * gain if z == u else lie for z in range(k)) for u in range(k))


def tilt_of(emission: Emission) -> float:
    """Max log B[u][z]/B[v][z], rounded up; infinite if an output is possible in some states only."""
    worst = 0.0
    for column in zip(*emission, strict=True):
        if max(column) > 0.0:
            worst = max(worst, math.log(max(column) / min(column)) if min(column) > 0.0 else math.inf)
    return worst * (1 + _SLACK) + (_SLACK if worst else 0.0)


def amplified(emission: Emission, w: float) -> float:
    """The tilt on the true states of a release whose tilt on the sanitized states is w, rounded up.

    The likelihood of the release changes by at most e^w between two values of one sanitized state. The ratio between
    true states u and v is therefore at most `max_S (1 + (e^w − 1)·B[u](S)) / (1 + (e^w − 1)·B[v](S))`, which is
    attained and never exceeds the tilt of the matrix, the value for an infinite w (docs/theory-k.md, Theorem 9).
    """
    if not w >= 0.0:
        raise ValueError(f"w is {w!r}; the tilt of a release is a number of nats, 0 or more")
    own = tilt_of(emission)
    if w == 0.0 or w > HIGHEST:
        return min(w, own)
    rows = [tuple(row) for row in emission]
    tau = max(_ratio(a, b, math.expm1(w)) for a, b in permutations(rows, 2))
    return min(w, own, tau * (1 + _SLACK) + _SLACK)


def _ratio(a: tuple[float, ...], b: tuple[float, ...], gain: float) -> float:
    """Log max_S (1 + gain·a(S))/(1 + gain·b(S)): the best S is a prefix of the outputs sorted by a/b."""
    best, over, under = 1.0, 1.0, 1.0
    for z in sorted(range(len(a)), key=lambda z: -a[z] / b[z] if b[z] > 0.0 else -math.inf):
        over, under = over + gain * a[z], under + gain * b[z]
        best = max(best, over / under)
    return math.log(best)


def release_tilt(emission: Emission, tau: float) -> float:
    """The largest w found with amplified(emission, w) ≤ τ; infinite if the tilt of the matrix is at most τ."""
    if not tau >= 0.0:
        raise ValueError(f"tau is {tau!r}; a tilt is a number of nats, 0 or more")
    if tilt_of(emission) <= tau:
        return math.inf
    low, _ = bisection(lambda w: amplified(emission, w) <= tau, min(tau, HIGHEST), HIGHEST, relative=1e-12)
    return low


def transposed_inverse(emission: Rows) -> list[list[float]]:
    """Rows a_x with Σ_z emission[u][z]·a_x[z] = 1 for u = x and 0 for other states u; ValueError if there are none."""
    k = len(emission)
    rows = [[*row, *(float(u == x) for x in range(k))] for u, row in enumerate(emission)]
    for step in range(k):
        pivot = max(range(step, k), key=lambda u: abs(rows[u][step]))
        rows[step], rows[pivot] = rows[pivot], rows[step]
        top = rows[step][step]
        if top == 0.0:
            raise ValueError("the noise mixes states so that they cannot be distinguished")
        rows[step] = [value / top for value in rows[step]]
        for u in range(k):
            if u != step and rows[u][step]:
                factor = rows[u][step]
                rows[u] = [value - factor * other for value, other in zip(rows[u], rows[step], strict=True)]
    return [[rows[z][k + x] for z in range(k)] for x in range(k)]
