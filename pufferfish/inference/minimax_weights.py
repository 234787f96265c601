"""How much each part of a whole counts, where some parts are known badly.

The whole's share f = Σ w·f_v is asked for. Of each part there is an unbiased estimate g_v of its share f_v, independent
of the others, with variance at most σ_v². The estimate Σ a·g_v with weights that sum to one is off on average by
Σ (a − w)·f_v. All f_v lie within [0, 1], and what a is above w in some parts it is below w in others: so

    |bias| ≤ β = ½·Σ |a − w|,  attained where f_v is 1 for all parts that are raised and 0 for all that are lowered,

and the mean square is at most β² + Σ a²·σ_v². The weights here make this bound least. Shifting dβ more from one part to
another changes it by 2·(β − h + l)·dβ, with h and l the a·σ² of the part lowered and of the part raised. So at the
least bound all lowered parts have a·σ² = h, all raised ones a·σ² = l, those between keep a = w, and h − l = β. With
more β taken, h falls and l rises: one β fits. Given β, Σ max(0, w − h/σ²) = β says h = max (Σ w − β)/(Σ 1/σ²) over all
sets of parts, of which those with the largest w·σ² are enough; and in the same way l = min (Σ w + β)/(Σ 1/σ²).

A part that is known well enough keeps nearly its weight. A few ticks behind strong noise lose theirs: their share is
taken to be like the others'. Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

Sums = Sequence[tuple[float, float]]
"""Σ w and Σ 1/σ² of the first part, of the first two, and so on."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights that sum to one, and how far they may be off on average, whatever the parts' shares are."""

    each: tuple[float, ...]
    bias: float


def least_error(wanted: Sequence[float], variances: Sequence[float]) -> Weights:
    """The weights with the least bound of the mean square, for parts that make up `wanted` of the whole."""
    if len(wanted) != len(variances) or not wanted:
        raise ValueError(f"{len(wanted)} parts with {len(variances)} variances; every part needs one")
    if min(wanted) <= 0 or min(variances) <= 0:
        raise ValueError("the parts of a whole and their variances must be above 0")
    if len(wanted) == 1:
        return Weights((1.0,), 0.0)
    total = sum(wanted)
    parts = [(one / total, 1 / variance) for one, variance in zip(wanted, variances, strict=True)]
    by_error = sorted(parts, key=lambda part: part[0] / part[1])
    raised, lowered = _sums(by_error), _sums(by_error[::-1])
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


def _sums(parts: Sequence[tuple[float, float]]) -> Sums:
    return list(accumulate(parts, lambda one, other: (one[0] + other[0], one[1] + other[1])))


def _levels(lowered: Sums, raised: Sums, beta: float) -> tuple[float, float]:
    """The h and l of the formula above."""
    return max((w - beta) / p for w, p in lowered), min((w + beta) / p for w, p in raised)
