"""A binary chain with hidden regimes: what real recordings are.

A step first draws the new regime ρ' from the row of the present one, then the new bit by the chain of ρ':

    P((ρ, x) → (ρ', x')) = T[ρ, ρ'] · P_ρ'[x, x'],   P_ρ[0, 1] = q_ρ,  P_ρ[1, 0] = r_ρ.

Regime and bit together are a chain on 2K states, numbered 2ρ + x; bits alone are not a chain. Regimes are kept in the
order of their shares of ones, q/(q+r).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

Vector = list[float]
Matrix = list[Vector]

MOST_REGIMES = 3
SUM_TOLERANCE = 1e-9
"""By how much the sum of a row may differ from 1; rows are normalised."""

_ROUNDING = 1e-12
"""Relative: the rounding errors of the products that `is_mtp2` compares."""

_DOUBLINGS = 40
_LEAST_COVARIANCE = 1e-9
"""Below it a covariance is mostly rounding."""


@dataclass(frozen=True)
class RegimeChain:
    """T, the transition matrix of the regimes, and (q, r) of the chain within each."""

    transition: tuple[tuple[float, ...], ...]
    chains: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, transition: Sequence[Sequence[float]], chains: Sequence[tuple[float, float]]) -> RegimeChain:
        """The chain, with its regimes in order and its rows normalised; ValueError says what is wrong with it."""
        count = len(chains)
        if not 1 <= count <= MOST_REGIMES:
            raise ValueError(f"chains: {count} regimes; there must be 1 to {MOST_REGIMES}")
        if len(transition) != count or any(len(row) != count for row in transition):
            raise ValueError(f"transition: it must have {count} rows of {count} numbers, as there are chains")
        for place, (q, r) in enumerate(chains):
            if not (0.0 < q < 1.0 and 0.0 < r < 1.0):
                raise ValueError(f"chains[{place}]: q is {q!r}, r is {r!r}; both must be inside (0, 1)")
        for place, row in enumerate(transition):
            if any(not 0.0 <= part <= 1.0 for part in row) or abs(math.fsum(row) - 1.0) > SUM_TOLERANCE:
                raise ValueError(f"transition[{place}]: probabilities that sum to 1 are needed")
        order = sorted(range(count), key=lambda place: chains[place][0] / sum(chains[place]))
        rows = tuple(
            tuple(transition[one][other] / math.fsum(transition[one]) for other in order) for one in order
        )
        found = cls(rows, tuple((float(q), float(r)) for q, r in (chains[place] for place in order)))
        if not found._is_connected():
            raise ValueError("transition: every regime must be reached from every other one")
        return found

    def _is_connected(self) -> bool:
        reached = [[part > 0.0 for part in row] for row in self.transition]
        for middle, one, other in product(range(self.regimes), repeat=3):
            reached[one][other] |= reached[one][middle] and reached[middle][other]
        return all(all(row) for row in reached) or self.regimes == 1

    @property
    def regimes(self) -> int:
        """K."""
        return len(self.chains)

    @cached_property
    def kernel(self) -> Matrix:
        """P on the 2K states."""
        rows = []
        for regime, bit in product(range(self.regimes), range(2)):
            row = []
            for share, (q, r) in zip(self.transition[regime], self.chains, strict=True):
                one = q if bit == 0 else 1.0 - r
                row += [share * (1.0 - one), share * one]
            rows.append(row)
        return rows

    @cached_property
    def stationary(self) -> Vector:
        """π on the 2K states."""
        return stationary_law(self.kernel)

    @cached_property
    def reversal(self) -> Matrix:
        """P*, the same chain backwards in time: P*[y, z] = π(z)·P[z, y]/π(y)."""
        law, kernel = self.stationary, self.kernel
        size = len(law)
        return [[law[z] * kernel[z][y] / law[y] for z in range(size)] for y in range(size)]

    @property
    def ones(self) -> float:
        """The share of ones, over all regimes."""
        return math.fsum(self.stationary[1::2])

    @cached_property
    def slowest_rate(self) -> float:
        """What the bits' longest memory loses at each tick: 1 − λ of their autocovariance at the longest lags."""
        lag, kernel, rate = 1, self.kernel, 1.0
        before = self._covariance(kernel)
        for _ in range(_DOUBLINGS):
            kernel = times(kernel, kernel)
            after = self._covariance(kernel)
            if not _LEAST_COVARIANCE < after < before:
                break
            rate = -math.expm1(math.log(after / before) / lag)
            lag, before = 2 * lag, after
        return rate

    def _covariance(self, kernel: Matrix) -> float:
        """The covariance of the bits at the two ends of a step of this kernel."""
        bits = [float(state % 2) - self.ones for state in range(2 * self.regimes)]
        later = applied(kernel, bits)
        return math.fsum(law * one * two for law, one, two in zip(self.stationary, bits, later, strict=True))

    @cached_property
    def is_mtp2(self) -> bool:
        """Whether the law of regimes and bits over any instants is MTP2, so that the product tilt is exact.

        It is if P is log-supermodular as a function of (ρ, x, ρ', x'): products of such functions are, their
        marginals too (so those of strides), and the stationary law is the limit of such marginals.
        """
        lattice = list(product(range(self.regimes), range(2), range(self.regimes), range(2)))

        def weight(regime: int, bit: int, next_regime: int, next_bit: int) -> float:
            return self.kernel[2 * regime + bit][2 * next_regime + next_bit]

        return all(
            weight(*map(max, one, other)) * weight(*map(min, one, other)) * (1 + _ROUNDING)
            >= weight(*one) * weight(*other)
            for one, other in product(lattice, repeat=2)
        )


def stationary_law(kernel: Matrix) -> Vector:
    """The stationary law of an irreducible chain, by elimination without subtractions (Grassmann, Taksar, Heyman)."""
    rest = [list(row) for row in kernel]
    for last in range(len(rest) - 1, 0, -1):
        leaving = math.fsum(rest[last][:last])
        for row in range(last):
            rest[row][last] /= leaving
            for column in range(last):
                rest[row][column] += rest[row][last] * rest[last][column]
    law = [1.0]
    for state in range(1, len(rest)):
        law.append(math.fsum(law[row] * rest[row][state] for row in range(state)))
    whole = math.fsum(law)
    return [part / whole for part in law]


def times(left: Matrix, right: Matrix) -> Matrix:
    """The product of two matrices."""
    columns = list(zip(*right, strict=True))
    return [[sum(map(float.__mul__, row, column)) for column in columns] for row in left]


def applied(matrix: Matrix, vector: Sequence[float]) -> Vector:
    """The product of a matrix and a vector."""
    return [sum(map(float.__mul__, row, vector)) for row in matrix]


def power(matrix: Matrix, exponent: int) -> Matrix:
    """The matrix, multiplied by itself."""
    size = len(matrix)
    found = [[float(row == column) for column in range(size)] for row in range(size)]
    while exponent:
        if exponent & 1:
            found = times(found, matrix)
        exponent >>= 1
        if exponent:
            matrix = times(matrix, matrix)
    return found
