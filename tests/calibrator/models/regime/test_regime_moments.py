"""The covariance of the statistics: against closed forms for first-order chains, and sums over hidden states."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushmq.calibrator.models.binary import binary_moments
from hushmq.calibrator.models.regime.long_bands import strided_bands
from hushmq.calibrator.models.regime.regime_coordinates import RegimeCoordinates
from hushmq.calibrator.models.regime.regime_moments import (
    Floats,
    SeenChains,
    band_means,
    covariance,
    mean_variance,
)
from hushmq.pufferfish.regimes.regime_chain import RegimeChain


def skew(share: float) -> float:
    return (1 - 2 * share) / math.sqrt(share * (1 - share))


def seen(
    ones: float,
    weights: list[float],
    rates: list[float],
    skews: list[float],
    rho: tuple[float, float],
    stride: int,
) -> SeenChains:
    bands = strided_bands(stride)
    rows = [np.array([values], dtype=float) for values in (bands.first, bands.last, bands.lags)]
    return SeenChains(
        np.array([ones]),
        *(np.array([values]) for values in (weights, rates, skews)),
        *(np.array([value], dtype=float) for value in (*rho, stride)),
        *rows,
    )


@pytest.mark.parametrize(
    ("ones", "lam", "rho0", "rho1"), [(0.45, 0.8, 0.3, 0.35), (0.2, 0.9, 0.05, 0.6), (0.7, 0.97, 0.2, 0.1)]
)
def test_one_component_is_a_first_order_chain(ones: float, lam: float, rho0: float, rho1: float) -> None:
    """On the bands that both count, the closed forms for first-order chains, as products P = κ·Ū − changes/2."""
    found = covariance(seen(ones, [1.0], [1 - lam], [skew(ones)], (rho0, rho1), 1))[0][:5, :5]
    kappa = 1 - 2 * (rho0 + (1 - rho0 - rho1) * ones)
    turn = np.diag([1.0, *[-0.5] * 4])
    turn[1:, 0] = kappa
    of_changes = binary_moments.covariance(*(np.array([one]) for one in (ones, lam, rho0, rho1)))[0]
    assert found == pytest.approx(turn @ of_changes @ turn.T, rel=0.01)


def autocovariance(chain: RegimeChain, lag: int) -> float:
    law, bits = np.array(chain.stationary), np.arange(4) % 2 - chain.ones
    return float((law * bits) @ np.linalg.matrix_power(np.array(chain.kernel), lag) @ bits)


@pytest.mark.parametrize("upper_time", [0.2, 0.4, 0.65])
def test_coordinates_are_the_autocovariance_of_their_chain(upper_time: float) -> None:
    """Exactly, whatever the time in the upper regime: two exponentials with these weights and rates."""
    found = RegimeCoordinates(0.4, 0.3, 0.005, 0.4)
    chain = found.chain(upper_time)
    assert chain.ones == pytest.approx(0.4)
    for lag in (0, 1, 5, 50, 700):
        expected = 0.24 * (0.7 * 0.6**lag + 0.3 * 0.995**lag)
        assert autocovariance(chain, lag) == pytest.approx(expected, rel=1e-9)


def test_upper_times_end_where_a_regime_has_no_zeros_or_no_ones() -> None:
    """At the least one the upper regime is all but full of ones, at the largest the lower one all but empty."""
    found = RegimeCoordinates(0.4, 0.3, 0.005, 0.4)
    least, largest = found.upper_times() or (0.0, 0.0)
    (_, (q, r)), ((p, s), _) = found.chain(least).chains, found.chain(largest).chains
    assert q / (q + r) == pytest.approx(0.999)
    assert p / (p + s) == pytest.approx(0.001)
    with pytest.raises(ValueError, match="no two regimes"):
        found.chain(least * 0.9)
    assert RegimeCoordinates(0.4, 0.999, 0.005, 0.4).upper_times() is None
    assert RegimeCoordinates(0.4, 0.3, 0.5, 0.4).upper_times() is None


def exact(
    chain: RegimeChain, rho: tuple[float, float], stride: int, bands: list[range], reach: int
) -> Floats:
    """The long-run covariance of the products over bands, summed over hidden states and offsets up to `reach`."""
    step = np.linalg.matrix_power(np.array(chain.kernel), stride)
    signal = 1 - sum(rho)
    mu = rho[0] + signal * chain.ones
    bit = np.arange(4) % 2
    emitted = np.where(bit == 1, 1 - rho[1], rho[0])
    first = emitted - mu
    second = emitted * (1 - mu) ** 2 + (1 - emitted) * mu**2
    powers = [np.linalg.matrix_power(step, lag) for lag in range(reach + max(map(max, bands)) + 1)]
    law = np.array(chain.stationary)

    def mean(times: list[int]) -> float:
        row, last = law, None
        for time in sorted(set(times)):
            row = row if last is None else row @ powers[time - last]
            row = row * (first if times.count(time) == 1 else second)
            last = time
        return float(row.sum())

    def pair(h: int, k: int) -> float:
        apart = mean([0, h]) * mean([0, k])
        return sum(mean([0, h, d, d + k]) - apart for d in range(-reach, reach + 1))

    size = len(bands)
    found = np.zeros((size, size))
    for a in range(size):
        for b in range(size):
            found[a, b] = np.mean([pair(h, k) for h in bands[a] for k in bands[b]])
    return found


def test_two_regimes_against_sums_over_hidden_states() -> None:
    """Products of a thinned stream of two regimes; the fast part of the chain is not two-valued, hence 4%."""
    found, upper_time, rho, stride = RegimeCoordinates(0.4, 0.4, 0.01, 0.3), 0.3, (0.1, 0.2), 30
    bands = strided_bands(stride)
    counted = [place for place, lags in enumerate(bands.lags) if 0 < lags < 5]
    seen_ = seen(0.4, [0.6, 0.4], [0.3, 0.01], [skew(0.4), skew(upper_time)], rho, stride)
    chosen = np.ix_([1 + place for place in counted], [1 + place for place in counted])
    lags = [range(bands.first[place], bands.last[place] + 1) for place in counted]
    expected = exact(found.chain(upper_time), rho, stride, lags, 40)
    assert covariance(seen_)[0][chosen] == pytest.approx(expected, rel=0.04)
    step = np.linalg.matrix_power(np.array(found.chain(upper_time).kernel), stride)
    assert seen_.steps[0, 1] == pytest.approx(sorted(np.linalg.eigvals(step).real)[-2], rel=1e-6)


def test_means_over_bands_and_the_variance_of_the_ones() -> None:
    """The closed forms against the sums they stand for."""
    one = seen(0.4, [0.6, 0.4], [0.3, 0.01], [0.0, 0.0], (0.1, 0.2), 5)
    bands = strided_bands(5)
    means = band_means(one.steps, one.first[:, None], one.lags[:, None])[0]
    for component, x in enumerate(one.steps[0]):
        for place, (first, last) in enumerate(zip(bands.first, bands.last, strict=True)):
            if last >= first:
                expected = np.mean([x**lag for lag in range(first, last + 1)])
                assert means[component, place] == pytest.approx(expected)
    v = 0.49 * 0.24 * np.array([0.6, 0.4])
    for ticks in (1, 7, 300):
        apart = np.abs(np.subtract.outer(np.arange(ticks), np.arange(ticks)))[..., None]
        pairs = (v * one.steps[0] ** apart).sum() + ticks * (0.38 * 0.62 - v.sum())
        assert mean_variance(one, np.array([float(ticks)]))[0] == pytest.approx(pairs / ticks**2)
