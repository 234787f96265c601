"""Minimax weights for a weighted mean of estimates with different variances.

The estimand is f = Σ w·f_v. Each part v has an independent, unbiased estimate g_v of f_v with variance at most σ_v².
The estimator Σ a·g_v with weights that sum to one has the bias Σ (a − w)·f_v. All f_v lie in [0, 1], and Σ (a − w) =
0, so

    |bias| ≤ β = ½·Σ |a − w|,  attained if f_v is 1 for all parts whose weight is raised and 0 for all others,

and the mean squared error is at most β² + Σ a²·σ_v². The weights here minimise this bound. Shifting weight dβ from
one part to another changes it by 2·(β − h + l)·dβ, where h and l are the a·σ² of the part lowered and of the part
raised. At the minimum all lowered parts have a·σ² = h, all raised parts a·σ² = l, the others a = w, and h − l = β. h
falls and l rises in β, so one β satisfies this. Given β, Σ max(0, w − h/σ²) = β means h = max (Σ w − β)/(Σ 1/σ²) over
all sets of parts, of which those with the largest w·σ² suffice; likewise l = min (Σ w + β)/(Σ 1/σ²).

A part with a small variance keeps nearly its weight w. A few ticks with strong noise lose theirs: f_v is taken to be
like that of the other parts. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

CumulativeSums = Sequence[tuple[float, float]]
"""Cumulative sums of w and of 1/σ²."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights that sum to one, and the largest |bias| they can have."""

    each: tuple[float, ...]
    bias: float


def minimax_weights(wanted: Sequence[float], variances: Sequence[float]) -> Weights:
    """The weights that minimise the bound on the mean squared error; `wanted` are the weights w of the estimand."""
    if len(wanted) != len(variances) or not wanted:
        raise ValueError(f"{len(wanted)} parts with {len(variances)} variances; every part needs one")
    if min(wanted) <= 0 or min(variances) <= 0:
        raise ValueError("the weights and variances of all parts must be positive")
    if len(wanted) == 1:
        return Weights((1.0,), 0.0)
    total = sum(wanted)
    parts = [(one / total, 1 / variance) for one, variance in zip(wanted, variances, strict=True)]
    by_error = sorted(parts, key=lambda part: part[0] / part[1])
    raised, lowered = _cumulative_sums(by_error), _cumulative_sums(by_error[::-1])
    least, most = 0.0, 1.0
    for _ in range(100):
        beta = (least + most) / 2
        high, low = _levels(lowered, raised, beta)
        least, most = (beta, most) if high - low > beta else (least, beta)
    high, low = _levels(lowered, raised, least)
    each = [max(min(w, high * p), low * p) for w, p in parts]
    return Weights(
        each=tuple(one / sum(each) for one in each),
        bias=sum(abs(one - w) for one, (w, _) in zip(each, parts, strict=True)) / 2,
    )


def _cumulative_sums(parts: Sequence[tuple[float, float]]) -> CumulativeSums:
    return list(accumulate(parts, lambda one, other: (one[0] + other[0], one[1] + other[1])))


def _levels(lowered: CumulativeSums, raised: CumulativeSums, beta: float) -> tuple[float, float]:
    """The levels h and l of the module's docstring."""
    return max((w - beta) / p for w, p in lowered), min((w + beta) / p for w, p in raised)
