"""Exact noise on several integers that one change may move all at once, in integers only.

Let one change move number g by at most its reach a_g. The level of a vector x is the least m with |x_g| ≤ a_g·m for all
g, and the noise has the law P(x) ∝ e^(−tilt·level(x)).

Theorem. Adding it to the numbers costs a tilt of at most `tilt` for one change, and n times that for n changes. Proof:
n changes move number g by at most n·a_g, and so the level of what must have been drawn by at most n. ∎

It is the K-norm mechanism of Hardt and Talwar ("On the geometry of differential privacy", STOC 2010) for the box of
reaches, on integers. Laplace noise would have to share the tilt between the numbers. Here each of five numbers has as
little noise as if it had more than a third of the tilt, and nobody has to choose the shares.

The sampler. V(m) = Π(2·a_g·m + 1) vectors have a level of at most m. If m is drawn with P(m) ∝ V(m)·e^(−tilt·m) and
then x uniformly among them, P(x) ∝ Σ_{m ≥ level(x)} e^(−tilt·m) ∝ e^(−tilt·level(x)). With p = e^(−tilt) and γ_j the
j-th difference of V at 0, V(m) = Σ_j γ_j·C(m, j), and no γ_j is negative, for V has no negative coefficient. Now
C(m, j)·p^m is p^j/(1−p)^(j+1) times the law of j plus j+1 geometric draws. So for d numbers P(j) ∝ γ_j·p^j·(1−p)^(d−j).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import exp, prod
from secrets import randbelow

from hushmq.pufferfish.noise.discrete_laplace import geometric

DIGITS = 40
"""Of the uniform draw that chooses j, to begin with; where they do not decide, twice as many."""


def drawn_together(reach: Sequence[int], tilt: Fraction) -> list[int]:
    """One draw; the reaches are positive, the tilt is a positive fraction, and nothing is rounded."""
    if tilt <= 0 or not reach or min(reach) < 1:
        raise ValueError(f"tilt is {tilt} and reach is {list(reach)}; all must be positive")
    j = _chosen(tuple(reach), tilt)
    level = j + sum(geometric(1 / tilt) for _ in range(j + 1))
    return [randbelow(2 * most * level + 1) - most * level for most in reach]


def mean_square(reach: Sequence[int], tilt: float, *, of: int = 0) -> float:
    """E x_g² for g = `of`: x_g is uniform on −a·m … a·m, so it is E (a·m)(a·m + 1)/3."""
    first, second = 0.0, 0.0
    p, shares = exp(-tilt), level_shares(reach, tilt)
    for j, share in enumerate(shares):
        mean, variance = j + (j + 1) * p / (1 - p), (j + 1) * p / (1 - p) ** 2
        first += share * mean
        second += share * (variance + mean**2)
    a = reach[of]
    return (a * a * second + a * first) / 3


def level_shares(reach: Sequence[int], tilt: float) -> list[float]:
    """P(j), rounded."""
    p, d = exp(-tilt), len(reach)
    weights = [gamma * p**j * (1 - p) ** (d - j) for j, gamma in enumerate(differences(tuple(reach)))]
    return [weight / sum(weights) for weight in weights]


@lru_cache(maxsize=64)
def differences(reach: tuple[int, ...]) -> tuple[int, ...]:
    """γ_j: the differences of V at 0."""
    values = [prod(2 * most * m + 1 for most in reach) for m in range(len(reach) + 1)]
    found = []
    while values:
        found.append(values[0])
        values = [after - before for before, after in pairwise(values)]
    return tuple(found)


def _chosen(reach: tuple[int, ...], tilt: Fraction) -> int:
    """j, by comparing a uniform draw with the sums of P(j): more digits of both until they decide."""
    digits = DIGITS
    below = randbelow(10**digits)
    while True:
        # The draw lies in [below, below + 1), and the sum in (edge − 1, edge + 2).
        for j, edge in enumerate(_edges(reach, tilt, digits)):
            if below + 1 <= edge - 1:
                return j
            if below < edge + 2:
                break
        else:
            return len(reach)
        below = below * 10**digits + randbelow(10**digits)
        digits *= 2


@lru_cache(maxsize=256)
def _edges(reach: tuple[int, ...], tilt: Fraction, digits: int) -> tuple[int, ...]:
    """P(0), P(0) + P(1), …, all but the last, in units of 10^−digits and rounded down.

    Decimal's exp is correctly rounded, no term is negative, and 1 − p loses no more digits than the tilt has places: so
    what is rounded down is off by far less than a unit.
    """
    with localcontext() as context:
        context.prec = digits + 40 + len(str(tilt.denominator))
        p = (-Decimal(tilt.numerator) / Decimal(tilt.denominator)).exp()
        weights = [gamma * p**j * (1 - p) ** (len(reach) - j) for j, gamma in enumerate(differences(reach))]
        total = sum(weights)
        sums = (sum(weights[: j + 1]) / total for j in range(len(reach)))
        return tuple(int(one * 10**digits) for one in sums)
