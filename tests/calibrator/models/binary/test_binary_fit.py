"""Θ from charged statistics: right on average, and wide enough for the individual device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.calibrator.models.binary import binary_fit as estimate
from hushmq.calibrator.models.binary.binary_evidence import BinaryEvidence
from hushmq.calibrator.models.binary.binary_fit import BinaryShares, chain, fit, pooled
from hushmq.calibrator.models.binary.binary_moments import Floats, band_powers, covariance, mean
from hushmq.calibrator.models.binary.binary_region import centre_region, cohort_region, device_regions
from hushmq.calibrator.models.device_spread import HIGHEST, LOWEST
from hushmq.calibrator.models.lag_bands import BANDS, WIDTHS
from hushmq.evaluation.estimation.sanitized_binary import (
    LearningCharge,
    counted,
    evidence,
    in_cohorts,
    sanitized,
)
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

SLEEPERS = np.array(
    [
        *[(0.158, 0.261), (0.057, 0.068), (0.215, 0.233), (0.277, 0.247), (0.238, 0.383), (0.183, 0.236)],
        *[(0.095, 0.149), (0.225, 0.210), (0.023, 0.045), (0.089, 0.109), (0.103, 0.158)],
    ]
)
"""q and r of the heart-rate recordings N1 … N11."""


def expected(noises: list[BinaryNoise], q: float, r: float, ticks: float, devices: int = 1) -> BinaryEvidence:
    """The statistics that streams have on average, for every noise in turn and every device."""
    rows = [(device, noise) for device in range(devices) for noise in noises]
    rho0, rho1 = (np.array([getattr(noise, name) for _, noise in rows]) for name in ("rho0", "rho1"))
    ones = np.ones(len(rows))
    shares, _ = mean(ones * q / (q + r), ones * (1 - q - r), rho0, rho1)
    return BinaryEvidence(
        tuple(f"d{device}" for device in range(devices)),
        np.array([device for device, _ in rows]),
        rho0,
        rho1,
        ones * ticks,
        shares[:, 0] * ticks,
        np.full((len(rows), len(BANDS)), ticks),
        shares[:, 1:] * ticks * np.array(WIDTHS),
        ones * 0.0,
    )


@pytest.mark.parametrize(("q", "r"), [(0.1, 0.2), (0.3, 0.3), (0.05, 0.4), (0.6, 0.7), (0.01, 0.02)])
def test_expected_statistics_give_the_chain_back(q: float, r: float) -> None:
    """Fed with expected counts under two noise settings at once, the fits are the chain's own q and r."""
    found = fit(expected([BinaryNoise(0.3, 0.25), BinaryNoise(0.4, 0.35)], q, r, 1e7, devices=4))
    assert found is not None
    for x in [found.centre, *found.chains]:
        pi1, lam = chain(x)
        assert ((1 - lam) * pi1, (1 - lam) * (1 - pi1)) == pytest.approx((q, r), rel=1e-3)
    alone = pooled(expected([BinaryNoise(0.3, 0.25), BinaryNoise(0.4, 0.35)], q, r, 1e7))
    assert alone is not None
    assert alone[0] == pytest.approx(np.log([q / r, (q + r) / (2 - q - r)]), abs=1e-3)


@pytest.mark.slow
def test_more_evidence_of_its_own_makes_a_device_stand_for_itself() -> None:
    """A device with forty times the ticks of the others keeps its own chain; one with few takes the cohort's."""
    rng = np.random.default_rng(3)
    noise = BinaryNoise(0.2, 0.2)
    long = counted(sanitized(np.array([0.05]), np.array([0.1]), noise, ticks=40_000, rng=rng), ticks=40_000)
    q, r = rng.normal(0.25, 0.01, 12), rng.normal(0.3, 0.01, 12)
    short = counted(sanitized(q, r, noise, ticks=1000, rng=rng), ticks=1000)
    found = fit(evidence([*long, *short], noise, charge=None, rng=rng))
    assert found is not None
    regions = device_regions(found, 0.9999)
    assert regions["device-0"].contains(BinaryTheta.point(0.05, 0.1))
    assert regions["device-0"].q_high < 0.08
    assert found.shrinkage[0].max() < 0.1 < found.shrinkage[1:].max(axis=1).min()


def narrowed(box: BinaryTheta, factor: float) -> BinaryTheta:
    """The box with its sides, in logits, cut to a fraction of their length."""
    ends = np.array([[box.q_low, box.q_high], [box.r_low, box.r_high]])
    logits = np.log(ends / (1 - ends))
    middle = logits.mean(axis=1, keepdims=True)
    low_high = 1 / (1 + np.exp(-(middle + factor * (logits - middle))))
    return BinaryTheta(*low_high[0], *low_high[1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["as mixed as N1–N11", "a little mixed", "homogeneous"])
def test_regions_cover_the_individual_device(kind: str) -> None:
    """A 95% region holds a device's own chain in 93% to 98% of cases; a quarter narrower, it would not."""
    rng = np.random.default_rng(11)
    cohorts, size, ticks = 200, 11, 6000
    noise, charge = BinaryNoise(0.18, 0.15), LearningCharge(tilt=0.78, draws=2)
    logits = np.log(SLEEPERS / (1 - SLEEPERS))
    spread = {"as mixed as N1–N11": np.cov(logits.T), "a little mixed": np.eye(2) * 0.15**2}.get(
        kind, np.zeros((2, 2))
    )
    truth = 1 / (1 + np.exp(-rng.multivariate_normal(logits.mean(axis=0), spread, cohorts * size)))
    sums = counted(sanitized(*truth.T, noise, ticks=ticks, rng=rng), ticks=ticks)
    covered = nearly = anyone = 0
    for number, cohort in enumerate(in_cohorts(sums, size)):
        found = fit(evidence(cohort, noise, charge=charge, rng=rng))
        assert found is not None
        regions = device_regions(found)
        whole = cohort_region(found)
        for device, mine in zip(found.devices, truth[number * size :], strict=False):
            point = BinaryTheta.point(*mine)
            covered += regions[device].contains(point)
            nearly += narrowed(regions[device], 0.75).contains(point)
            anyone += whole.contains(point)
    total = cohorts * size
    assert 0.93 < covered / total < 0.98
    assert nearly / total < 0.93
    assert anyone / total > 0.93


@pytest.mark.parametrize("excess", [1.0, 10.0])
def test_devices_that_differ_are_not_taken_for_alike(excess: float) -> None:
    """The spread of a mixed cohort is seen every time, also where the data scatters more than chains would."""
    rng = np.random.default_rng(8)
    m, ticks, rho = 40, 20_000.0, np.full(40, 0.3)
    for _ in range(12):
        pi1, half = 1 / (1 + np.exp(-rng.normal([-0.2, -1.7], [0.25, 0.8], (m, 2)))).T
        shares, _ = mean(pi1, 1 - 2 * half, rho, rho)
        errors = excess * covariance(pi1, 1 - 2 * half, rho, rho) / ticks
        shares += np.einsum("dij,dj->di", np.linalg.cholesky(errors), rng.normal(size=shares.shape))
        counts = np.full((m, len(BANDS)), ticks)
        found = fit(
            BinaryEvidence(
                tuple(map(str, range(m))),
                np.arange(m),
                rho,
                rho,
                counts[:, 0],
                shares[:, 0] * ticks,
                counts,
                shares[:, 1:] * ticks * np.array(WIDTHS),
                np.zeros(m),
            )
        )
        assert found is not None
        assert found.spread[1] > 0.55**2
        assert found.spread[0] > 0.15**2


@pytest.mark.parametrize("ticks", [300, 3_000, 12_000, 24_000])
@pytest.mark.parametrize("deviation", [0.02, 0.29, 0.31, 0.7, 2.0])
def test_what_is_not_known_of_b_is_integrated_over(ticks: int, deviation: float) -> None:
    """However wide the cohort's law and however narrow the device's likelihood: as on a grid of ten thousand values."""
    q, r, mu, T = 0.06, 0.08, -2.0, deviation**2
    evidence_ = expected([BinaryNoise(0.42, 0.44)], q, r, ticks, devices=2)
    devices = BinaryShares.of(evidence_).at(np.log([[q / r, (q + r) / (2 - q - r)]] * 2))
    likelihood = estimate._marginal(devices, 1, np.array([np.log(q / r), mu]), np.array([1e-9, T]))
    assert (likelihood.variances > estimate.WIDE).all()
    drawn = np.linspace(mu - 8 * deviation, mu + 8 * deviation, 10_001)
    b = np.clip(drawn, LOWEST[1], HIGHEST[1])
    power, _ = band_powers(1 - 2 / (1 + np.exp(-b)))
    log = -power @ devices.linear[0] - 0.5 * ((power @ devices.square[0]) * power).sum(axis=1)
    log -= (drawn - mu) ** 2 / (2 * T)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    _, means, variances = likelihood(mu, T)
    exact = float(weights @ b)
    spread = float(weights @ (b - exact) ** 2)
    assert means[0] == pytest.approx(exact, abs=0.03 * spread**0.5)
    assert variances[0] == pytest.approx(spread, rel=0.03)


def test_caution_is_for_regions_of_95_percent() -> None:
    """A smaller error is not had by more standard deviations alone where T is leant on, and is where it is not."""
    found = fit(expected([BinaryNoise(0.3, 0.3)], 0.2, 0.3, 3e4, devices=8))
    assert found is not None
    assert (found.spread_share > 0.05).all()
    alone = replace(found, spread_share=np.zeros_like(found.spread_share))
    for confidence, least in ((0.9, 1.0), (0.95, 1.0), (0.9999, 1 + 0.2 * found.spread_share.min())):
        wide, narrow = (logits(device_regions(one, confidence)["d3"]) for one in (found, alone))
        assert (wide >= least * narrow - 1e-9).all()
        assert np.allclose(wide, narrow) == (least == 1)


def logits(box: BinaryTheta) -> Floats:
    """The lengths of a box's sides, in logits."""
    ends = np.array([[box.q_low, box.r_low], [box.q_high, box.r_high]])
    low, high = np.log(ends / (1 - ends))
    return np.asarray(high - low)


def test_two_devices_say_nothing_about_a_cohort() -> None:
    """Without three devices, or without ticks, there is no fit rather than a wrong one."""
    assert fit(expected([BinaryNoise(0.3, 0.3)], 0.2, 0.3, 1e5, devices=2)) is None
    assert pooled(expected([BinaryNoise(0.3, 0.3)], 0.2, 0.3, 0.0)) is None


def test_regions_widen_with_the_confidence_and_contain_their_centre() -> None:
    """More confidence never gives a narrower region, and the centre of a cohort is known better than its members."""
    found = fit(expected([BinaryNoise(0.3, 0.3)], 0.2, 0.3, 1e4, devices=8))
    assert found is not None
    for region in (cohort_region, centre_region, lambda f, c: device_regions(f, c)["d0"]):
        assert region(found, 0.99).contains(region(found, 0.95))
        assert region(found, 0.95).contains(centre_region(found, 1e-6))
    assert cohort_region(found).contains(centre_region(found))


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    counts=st.lists(
        st.tuples(st.integers(1, 5000), *(st.integers(-4000, 9000) for _ in range(1 + len(BANDS)))),
        min_size=3,
        max_size=6,
    ),
    variance=st.sampled_from([0.0, 10.0, 1e6]),
)
def test_whatever_the_noise_made_of_the_counts(counts: list[tuple[int, ...]], variance: float) -> None:
    """Counts that no chain could have give a region all the same, inside (0, 1), without a warning."""
    rows = np.array(counts, dtype=float)
    devices = len(rows)
    starts = np.maximum(rows[:, :1] - np.array([last for _, last in BANDS]), 0)
    with np.errstate(all="raise", under="ignore"):
        found = fit(
            BinaryEvidence(
                tuple(map(str, range(devices))),
                np.arange(devices),
                np.full(devices, 0.3),
                np.full(devices, 0.25),
                rows[:, 0],
                rows[:, 1],
                starts,
                rows[:, 2:] * (starts > 0),
                np.full(devices, variance),
            )
        )
        assert found is not None
        assert cohort_region(found).q_low > 0
        assert all(box.r_high < 1 for box in device_regions(found).values())
