"""Fitting chains of k states: the truth is found, held, and never claimed where there is no evidence for it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hushmq.calibrator.models.categorical.categorical_evidence import CategoricalEvidence
from hushmq.calibrator.models.categorical.categorical_fit import CategoricalFit, fit
from hushmq.calibrator.models.categorical.categorical_misfit import correlations, measure, slowed
from hushmq.calibrator.models.categorical.categorical_moments import (
    Floats,
    band_means,
    described,
    hidden,
    independent,
    seen,
    simulated,
    stationary,
    transitions,
)
from hushmq.calibrator.models.categorical.categorical_region import (
    centre_region,
    cohort_region,
    device_regions,
    point,
    widened_theta,
)
from hushmq.calibrator.models.lag_bands import BANDS
from hushmq.evaluation.estimation.categorical_coverage import FOUR, THREE
from hushmq.evaluation.estimation.sanitized_categorical import evidence, sanitized
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.emission import randomized_response
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals

K = 3
EMISSION = np.array(randomized_response(K, 2.0))


def cohort(
    x: Floats, *, ticks: int = 6000, seed: int = 1, emission: Floats = EMISSION, scale: float = 10.0
) -> CategoricalEvidence:
    rng = np.random.default_rng(seed)
    states = sanitized(transitions(x, K), emission, ticks=ticks, rng=rng)
    return evidence([states], emission, scale=scale, draws=2, rng=rng)


def found_in(found: CategoricalEvidence) -> CategoricalFit:
    fitted = fit(found)
    assert fitted is not None
    return fitted


def alike(count: int = 8, P: Floats = THREE) -> Floats:
    return np.repeat(described(P)[None], count, axis=0)


def test_means_are_sums_over_hidden_states() -> None:
    """The expected shares of pairs are those of the definition, lag by lag and path by path."""
    x = described(THREE)
    assert transitions(x, K) == pytest.approx(THREE)
    pi = stationary(THREE)
    assert pi @ THREE == pytest.approx(pi)
    expected = seen(*hidden(x, K), EMISSION)
    assert expected[:K] == pytest.approx(pi @ EMISSION)
    for band, (first, last) in enumerate(BANDS):
        pairs = np.zeros((K, K))
        for lag in range(first, last + 1):
            step = np.linalg.matrix_power(THREE, lag)
            for a, b, u, v in itertools.product(range(K), repeat=4):
                pairs[u, v] += pi[a] * step[a, b] * EMISSION[a, u] * EMISSION[b, v] / (last - first + 1)
        block = expected[K + band * K * K : K + (band + 1) * K * K]
        assert block == pytest.approx(pairs.ravel())


def test_simulated_and_independent_covariances_agree_where_states_are_independent() -> None:
    """For a chain that forgets at once both are the covariance of independent draws; for a slow one they are not."""
    pi = np.array([0.5, 0.3, 0.2])
    plain = independent(pi @ EMISSION)
    measured = simulated(np.tile(pi, (K, 1)), EMISSION)
    ratio = np.diagonal(measured) / np.diagonal(plain)
    assert ratio.min() > 0.75
    assert ratio.max() < 1.35
    slow = np.eye(K) * 0.9 + 0.1 * np.tile(pi, (K, 1))
    assert (np.diagonal(simulated(slow, EMISSION))[:K] > 2 * np.diagonal(plain)[:K]).all()


def test_the_truth_is_held_by_every_region() -> None:
    """Devices alike: centre, cohort and each device's own region hold the chain; more confidence is wider."""
    found = found_in(cohort(alike()))
    truth = point(described(THREE), K)
    for region in (cohort_region, centre_region, lambda f, c: device_regions(f, c)["device-0"]):
        assert region(found, 0.99).contains(truth)
        assert region(found, 0.99).contains(region(found, 0.95))
        assert region(found, 0.95).contains(point(found.centre, found.k))
    assert cohort_region(found).contains(centre_region(found))


@pytest.mark.slow
def test_devices_apart_have_regions_apart() -> None:
    """With much evidence each device stands for itself, and the cohort's region holds them all."""
    quick = THREE @ THREE
    x = np.concatenate([alike(4), alike(4, quick)])
    found = found_in(cohort(x, ticks=30_000, emission=np.array(randomized_response(K, 3.0))))
    regions = device_regions(found)
    for number in range(8):
        own, other = (THREE, quick) if number < 4 else (quick, THREE)
        region = regions[f"device-{number}"]
        assert region.contains(point(described(own), K))
        assert not region.contains(point(described(other), K))
        assert region.contains(point(found.chains[number], K))
        assert cohort_region(found).contains(point(described(own), K))


@pytest.mark.slow
def test_versions_are_one_fit() -> None:
    """A device's rows under different noise share its chain: together they know more than either."""
    bold, shy = np.array(randomized_response(K, 3.0)), np.array(randomized_response(K, 1.0))
    one, two = cohort(alike(), emission=bold), cohort(alike(), emission=shy, seed=2)
    joined = CategoricalEvidence(
        one.devices,
        np.concatenate([one.device, two.device]),
        *(
            np.concatenate([getattr(one, name), getattr(two, name)])
            for name in ("emission", "ticks", "counts", "starts", "pairs", "variance")
        ),
    )
    both, alone = found_in(joined), found_in(two)
    assert device_regions(both)["device-1"].contains(point(described(THREE), K))
    assert np.trace(both.centre_covariance) < np.trace(alone.centre_covariance)


def test_without_enough_devices_or_ticks_there_is_no_fit() -> None:
    """Two devices say nothing about a spread; no ticks say nothing at all."""
    assert fit(cohort(alike(2), ticks=500)) is None
    few = cohort(alike(3), ticks=500)
    assert fit(replace(few, ticks=np.zeros(3))) is None


def test_where_the_noise_drowns_everything_nothing_is_claimed() -> None:
    """With next to no signal the regions are nearly everything: no lower end worth having."""
    found = found_in(
        cohort(alike(4), ticks=500, emission=np.array(randomized_response(K, 0.05)), scale=200.0)
    )
    region = cohort_region(found)
    assert max(max(row) for row in region.forward.low) < 0.05
    assert all(high > 0.9 for row in region.forward.high for high in row)


@pytest.mark.slow
@pytest.mark.parametrize("variance", [0.0, 10.0, 1e6])
def test_whatever_the_noise_made_of_the_counts(variance: float) -> None:
    """Counts that no chain could have give regions all the same, which hold their own centres."""
    rng = np.random.default_rng(int(variance))
    for most in (0, 100, 9000):
        found = found_in(
            CategoricalEvidence(
                tuple("abcd"),
                np.arange(4),
                np.repeat(EMISSION[None], 4, axis=0),
                np.full(4, 2000.0),
                rng.integers(-most, most + 1, (4, K)).astype(float),
                np.full((4, len(BANDS)), 1900.0),
                rng.integers(-most, most + 1, (4, len(BANDS), K, K)).astype(float),
                np.full(4, variance),
            )
        )
        assert cohort_region(found).contains(point(found.centre, found.k))
        regions = device_regions(found).values()
        assert all(one.contains(point(x, K)) for one, x in zip(regions, found.chains, strict=True))


def test_first_order_chains_have_no_misfit() -> None:
    """Neither one chain nor a mixture of different ones is taken for a misfit."""
    rng = np.random.default_rng(3)
    x = described(THREE) + rng.normal(0, 0.4, (8, K * (K - 1)))
    seen_ = cohort(x, ticks=8000)
    assert measure(seen_, found_in(seen_)).shift == 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_is_not_known_is_no_misfit(seed: int) -> None:
    """Slow chains of different devices, of which little is known: what was seen may well be theirs."""
    rng = np.random.default_rng(seed)
    x = described(np.eye(4) * 0.9 + FOUR * 0.1) + rng.normal(0, 0.5, (12, 12))
    emission = np.array(randomized_response(4, 2.5))
    states = sanitized(transitions(x, 4), emission, ticks=2000, rng=rng)
    seen_ = evidence([states], emission, scale=10.0, draws=1, rng=rng)
    assert measure(seen_, found_in(seen_)).shift == 0


def test_slow_levels_are_a_misfit_and_are_covered() -> None:
    """Quick states around a slow level are seen; the slowed chain has the correlation of the data at those lags."""
    rng = np.random.default_rng(5)
    devices, ticks = 10, 12_000
    level = np.cumsum(rng.random((devices, ticks)) < 0.008, axis=1) % 2
    draws = rng.random((devices, ticks, 1))
    states = (draws > np.where(level[..., None], [0.2, 0.4], [0.6, 0.8])).sum(axis=2)
    lies = np.cumsum(EMISSION, axis=1)[:, :-1]
    sent = (rng.random((devices, ticks, 1)) > lies[states]).sum(axis=2).astype(np.uint8)
    seen_ = evidence([sent], EMISSION, scale=10.0, draws=2, rng=rng)
    found = found_in(seen_)
    misfit = measure(seen_, found)
    far = misfit.bands[-1]
    assert far.excess > 0.02
    assert misfit.shift < -0.2
    P = transitions(found.centre, K)
    slow = np.eye(K) + np.exp(misfit.shift) * (P - np.eye(K))
    assert correlations(slow)[-1] >= correlations(P)[-1] + far.excess - 1e-6
    assert correlations(slow) == pytest.approx(
        (np.einsum("u,buu->b", stationary(P), band_means(slow)) - (stationary(P) ** 2).sum())
        / (1 - (stationary(P) ** 2).sum())
    )
    reached = np.array(slowed(point(found.centre, K), misfit.persistent_shares).forward.high)
    own = correlations(P)
    assert correlations(reached)[-1] == pytest.approx(
        own[-1] + far.persistent_share * (1 - own[-1]), abs=1e-5
    )


def test_every_interval_is_widened() -> None:
    """Half as wide again, in angles: what ends at 0 or 1 stays there, and the other end moves a little."""
    rows = (
        ((0.0, 0.2, 0.5), (0.1, 0.3, 0.1), (0.2, 0.6, 0.0)),
        ((0.3, 0.5, 1.0), (0.4, 0.7, 0.4), (0.5, 0.9, 0.6)),
    )
    intervals = TransitionIntervals(*rows)
    wide = widened_theta(CategoricalTheta(intervals, intervals)).forward
    angles = [np.arcsin(np.sqrt(np.array(ends))) for ends in (*rows, wide.low, wide.high)]
    inner = (angles[2] > 0) & (angles[3] < np.pi / 2)
    assert (angles[3] - angles[2])[inner] == pytest.approx(1.5 * (angles[1] - angles[0])[inner])
    assert inner.sum() > 2
    assert wide.low[0][0] == wide.low[2][2] == 0.0
    assert wide.high[0][2] == 1.0
    assert 0.3 < wide.high[0][0] < 0.5
