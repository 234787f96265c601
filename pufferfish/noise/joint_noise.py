"""Exact joint noise on several integers that one change of the data may change simultaneously, in integer arithmetic.

Let one change of the data change number g by at most its sensitivity a_g. The level of a vector x is the least m with
|x_g| ≤ a_g·m for all g, and the noise has the law P(x) ∝ e^(−tilt·level(x)).

Theorem. Adding it to the numbers costs a tilt of at most `tilt` for one change, and n times that for n changes. Proof:
n changes move number g by at most n·a_g, and so the level of the noise that gives a fixed output by at most n. ∎

It is the K-norm mechanism of Hardt and Talwar ("On the geometry of differential privacy", STOC 2010) on integers, for
the box of sensitivities. Laplace noise would split the tilt between the numbers. With five numbers, each has as little
noise here as with more than a third of the tilt, and no split has to be chosen.

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
"""Decimal digits of the uniform draw that selects j; doubled while they do not decide."""


def draw_joint_noise(sensitivities: Sequence[int], tilt: Fraction) -> list[int]:
    """One exact draw; ValueError unless the tilt and all sensitivities are positive."""
    if tilt <= 0 or not sensitivities or min(sensitivities) < 1:
        raise ValueError(f"tilt is {tilt} and sensitivities are {list(sensitivities)}; all must be positive")
    j = _draw_component(tuple(sensitivities), tilt)
    level = j + sum(geometric(1 / tilt) for _ in range(j + 1))
    return [randbelow(2 * most * level + 1) - most * level for most in sensitivities]


def mean_square(sensitivities: Sequence[int], tilt: float, *, of: int = 0) -> float:
    """E x_g² for g = `of`: given the level m, x_g is uniform on −a·m … a·m, so it is E (a·m)(a·m + 1)/3."""
    first, second = 0.0, 0.0
    p, shares = exp(-tilt), level_shares(sensitivities, tilt)
    for j, share in enumerate(shares):
        mean, variance = j + (j + 1) * p / (1 - p), (j + 1) * p / (1 - p) ** 2
        first += share * mean
        second += share * (variance + mean**2)
    a = sensitivities[of]
    return (a * a * second + a * first) / 3


def level_shares(sensitivities: Sequence[int], tilt: float) -> list[float]:
    """P(j) in floating point."""
    p, d = exp(-tilt), len(sensitivities)
    weights = [gamma * p**j * (1 - p) ** (d - j) for j, gamma in enumerate(differences(tuple(sensitivities)))]
    return [weight / sum(weights) for weight in weights]


@lru_cache(maxsize=64)
def differences(sensitivities: tuple[int, ...]) -> tuple[int, ...]:
    """γ_j: the j-th finite differences of V at 0."""
    values = [prod(2 * most * m + 1 for most in sensitivities) for m in range(len(sensitivities) + 1)]
    found = []
    while values:
        found.append(values[0])
        values = [after - before for before, after in pairwise(values)]
    return tuple(found)


def _draw_component(sensitivities: tuple[int, ...], tilt: Fraction) -> int:
    """A draw of j by inversion of its cumulative probabilities, with as many digits as it takes to decide."""
    digits = DIGITS
    below = randbelow(10**digits)
    while True:
        # The draw lies in [below, below + 1), the cumulative probability in (edge − 1, edge + 2).
        for j, edge in enumerate(_cumulative_probabilities(sensitivities, tilt, digits)):
            if below + 1 <= edge - 1:
                return j
            if below < edge + 2:
                break
        else:
            return len(sensitivities)
        below = below * 10**digits + randbelow(10**digits)
        digits *= 2


@lru_cache(maxsize=256)
def _cumulative_probabilities(sensitivities: tuple[int, ...], tilt: Fraction, digits: int) -> tuple[int, ...]:
    """P(0), P(0) + P(1), …, all but the last, in units of 10^−digits, rounded down.

    Decimal's exp is correctly rounded, no term is negative, and 1 − p loses at most as many digits as the tilt has
    places, so the error before rounding is far below one unit.
    """
    with localcontext() as context:
        context.prec = digits + 40 + len(str(tilt.denominator))
        p = (-Decimal(tilt.numerator) / Decimal(tilt.denominator)).exp()
        weights = [
            gamma * p**j * (1 - p) ** (len(sensitivities) - j)
            for j, gamma in enumerate(differences(sensitivities))
        ]
        total = sum(weights)
        sums = (sum(weights[: j + 1]) / total for j in range(len(sensitivities)))
        return tuple(int(one * 10**digits) for one in sums)
