"""Mean and covariance of the statistics, against sums over hidden states."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise, product

import numpy as np
import pytest

from hushmq.calibrator.models.binary.binary_moments import band_powers, covariance, mean
from hushmq.calibrator.models.lag_bands import BANDS

CHAINS = [(0.3, 0.4, 0.2, 0.1), (0.15, 0.35, 0.35, 0.3), (0.6, 0.7, 0.1, 0.25)]
"""q, r, ρ0, ρ1; the last with negative correlation."""


class Oracle:
    """Joint moments of the sanitized states, by carrying both hidden states from tick to tick."""

    def __init__(self, q: float, r: float, rho0: float, rho1: float) -> None:
        self.step = np.array([[1 - q, q], [r, 1 - r]])
        self.start = np.array([r, q]) / (q + r)
        self.one = np.array([rho0, 1 - rho1])
        self.joint = lru_cache(maxsize=None)(self._joint)
        self.power = lru_cache(maxsize=None)(lambda n: np.linalg.matrix_power(self.step, n))

    def _joint(self, gaps: tuple[int, ...]) -> float:
        """E of the product of Z at ticks that lie these gaps apart."""
        carried = self.start * self.one
        for gap in gaps:
            carried = (carried @ self.power(gap)) * self.one
        return float(carried.sum())

    def expected(self, *ticks: int) -> float:
        """E of the product of Z at these ticks; a tick given twice counts once, because Z is a bit."""
        ordered = sorted(set(ticks))
        return self.joint(tuple(b - a for a, b in pairwise(ordered)))

    def changed(self, h: int) -> list[tuple[float, tuple[int, ...]]]:
        """[Z_0 ≠ Z_h] as a sum of products: Z_0 + Z_h − 2·Z_0·Z_h."""
        return [(1.0, (0,)), (1.0, (h,)), (-2.0, (0, h))]

    def long_run(
        self, f: list[tuple[float, tuple[int, ...]]], g: list[tuple[float, tuple[int, ...]]]
    ) -> float:
        """Σ over all offsets d of Cov(f at 0, g at d)."""
        total = 0.0
        for d in range(-42, 43):
            for (a, first), (b, second) in product(f, g):
                shifted = tuple(tick + d for tick in second)
                total += (
                    a * b * (self.expected(*first, *shifted) - self.expected(*first) * self.expected(*second))
                )
        return total


@pytest.mark.parametrize("chain", CHAINS)
def test_mean_is_exact(chain: tuple[float, float, float, float]) -> None:
    """The expected shares are those summed over hidden states, for every band."""
    q, r, rho0, rho1 = chain
    oracle = Oracle(*chain)
    expected, _ = mean(*(np.array(x) for x in (q / (q + r), 1 - q - r, rho0, rho1)))
    assert expected[0] == pytest.approx(oracle.expected(0), rel=1e-12)
    for band, (first, last) in enumerate(BANDS):
        shares = [sum(a * oracle.expected(*t) for a, t in oracle.changed(h)) for h in range(first, last + 1)]
        assert expected[1 + band] == pytest.approx(np.mean(shares), rel=1e-10)


@pytest.mark.parametrize("chain", CHAINS)
def test_slopes_are_derivatives(chain: tuple[float, float, float, float]) -> None:
    """The stated derivatives by π1 and λ agree with differences."""
    q, r, rho0, rho1 = chain
    point = np.array([q / (q + r), 1 - q - r])
    _, slopes = mean(*(np.array(x) for x in (*point, rho0, rho1)))
    for which in (0, 1):
        ahead, back = (point + sign * 1e-6 * np.eye(2)[which] for sign in (1, -1))
        difference = (
            mean(*map(np.array, (*ahead, rho0, rho1)))[0] - mean(*map(np.array, (*back, rho0, rho1)))[0]
        ) / 2e-6
        np.testing.assert_allclose(slopes[:, which], difference, atol=1e-8)


@pytest.mark.parametrize("chain", CHAINS)
def test_covariance_is_exact(chain: tuple[float, float, float, float]) -> None:
    """The long-run covariance of ones and of the first three bands is the sum over all offsets, to the table's 0.1%."""
    q, r, rho0, rho1 = chain
    oracle = Oracle(*chain)
    found = covariance(*(np.array(x) for x in (q / (q + r), 1 - q - r, rho0, rho1)))
    ones = [(1.0, (0,))]
    assert found[0, 0] == pytest.approx(oracle.long_run(ones, ones), rel=1e-6)
    bands = [range(first, last + 1) for first, last in BANDS[:3]]
    for b, lags in enumerate(bands):
        exact = np.mean([oracle.long_run(ones, oracle.changed(h)) for h in lags])
        assert found[0, 1 + b] == pytest.approx(exact, rel=1e-3, abs=3e-5)
    for b, c in [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2)]:
        exact = np.mean(
            [oracle.long_run(oracle.changed(h), oracle.changed(k)) for h, k in product(bands[b], bands[c])]
        )
        assert found[1 + b, 1 + c] == pytest.approx(exact, rel=1e-3, abs=3e-5)


@pytest.mark.parametrize("lam", [-0.7, -0.1, 0.0, 0.3, 0.9, 0.998])
def test_band_powers(lam: float) -> None:
    """The closed forms are the means of λ^h and of h·λ^(h−1)."""
    power, slope = band_powers(np.array(lam))
    for band, (first, last) in enumerate(BANDS):
        lags = np.arange(first, last + 1)
        assert power[band] == pytest.approx(np.mean(lam**lags), rel=1e-9, abs=1e-14)
        assert slope[band] == pytest.approx(np.mean(lags * lam ** (lags - 1.0)), rel=1e-8, abs=1e-14)
