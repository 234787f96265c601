"""Fits and regions of chains with regimes, on simulated cohorts; that regions are priced by their chains."""

from __future__ import annotations

import numpy as np
import pytest

from hushmq.calibrator.models.regime.long_bands import LONG_BANDS
from hushmq.calibrator.models.regime.regime_coordinates import RegimeCoordinates
from hushmq.calibrator.models.regime.regime_evidence import RegimeEvidence
from hushmq.calibrator.models.regime.regime_fit import alone, fit
from hushmq.calibrator.models.regime.regime_intervals import RegimeIntervals
from hushmq.calibrator.models.regime.regime_region import cohort_region, device_regions
from hushmq.calibrator.models.sufficient_statistics import NoisyStatistics
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

evaluation = pytest.importorskip("hushmq.evaluation.estimation.regime_coverage")
simulation = pytest.importorskip("hushmq.evaluation.estimation.sanitized_regimes")

NOISE = BinaryNoise(0.2, 0.2)
TICKS = 172_800


def rows(
    devices: int, stride: int, *, seed: int, tilt: float = 1.0
) -> list[tuple[NoisyStatistics, BinaryNoise, int]]:
    """A day at 2 Hz of devices with the chains of the sleepers N1, N2, …"""
    rng = np.random.default_rng(seed)
    chains = [evaluation.chain_of(evaluation.SLEEPERS[number]) for number in range(devices)]
    states = simulation.sanitized(chains, NOISE, stride=stride, count=TICKS // stride, rng=rng)
    sums = simulation.counted(states, stride=stride, window=TICKS // 6)
    found = simulation.evidence(sums, NOISE, charge=simulation.LearningCharge(tilt, 1), rng=rng)
    return [
        (
            NoisyStatistics(
                f"device-{place}",
                1,
                int(found.ticks[place]),
                [int(one) for one in found.starts[place]],
                [[int(found.ones[place])], *([int(one)] for one in found.changes[place])],
                float(found.variance[place]),
            ),
            NOISE,
            stride,
        )
        for place in range(devices)
    ]


def coordinates(number: int) -> RegimeCoordinates:
    return RegimeCoordinates(*evaluation.SLEEPERS[number][:4])


def test_regions_hold_the_chains_and_are_narrow() -> None:
    """Eleven sleepers for a day: nearly all are held, and slow shares and rates are known within limits."""
    found = fit(RegimeEvidence.of(rows(11, 3, seed=4)))
    assert found is not None
    regions = device_regions(found)
    held = [regions[f"device-{number}"].holds(coordinates(number)) for number in range(11)]
    assert sum(held) >= 10
    assert np.median([one.slow_share[1] - one.slow_share[0] for one in regions.values()]) < 0.35
    assert np.median([one.slow_rate[1] / one.slow_rate[0] for one in regions.values()]) < 5
    whole = cohort_region(found)
    assert all(whole.slow_rate[0] <= coordinates(number).slow_rate for number in range(11))


def test_rows_of_different_strides_are_about_one_chain() -> None:
    """The same device counted at two strides: together they tell more than the longer stride does."""
    both = [*rows(4, 3, seed=1), *rows(4, 30, seed=2)]
    found = fit(RegimeEvidence.of(both))
    assert found is not None
    assert found.devices == tuple(f"device-{number}" for number in range(4))
    assert all(own.holds(coordinates(number)) for number, own in enumerate(device_regions(found).values()))
    longer, shorter = (
        device_regions(alone(RegimeEvidence.of(part)))["device-0"] for part in (both, both[4:])
    )
    assert longer.slow_rate[1] / longer.slow_rate[0] < shorter.slow_rate[1] / shorter.slow_rate[0]


def test_a_higher_confidence_has_a_wider_region() -> None:
    """In every coordinate, for every device and for the cohort."""
    found = fit(RegimeEvidence.of(rows(4, 30, seed=3)))
    assert found is not None
    narrow, wide = device_regions(found, 0.9), device_regions(found, 0.999)
    assert all(wide[device].contains(own) for device, own in narrow.items())
    assert cohort_region(found, 0.999).contains(cohort_region(found, 0.9))


def test_without_evidence_everything_is_possible() -> None:
    """Bands that were not counted, and no ticks: the region is all of the lattice; two devices are no cohort."""
    none = NoisyStatistics("a", 1, 0, [0] * len(LONG_BANDS), [[0]] * (1 + len(LONG_BANDS)), 1.0)
    region = device_regions(alone(RegimeEvidence.of([(none, NOISE, 5)])))["a"]
    assert region.slow_share[0] < 0.05
    assert region.slow_share[1] > 0.9
    assert region.slow_rate[0] < 1 / 4000
    assert fit(RegimeEvidence.of(rows(2, 30, seed=3))) is None
    assert fit(RegimeEvidence.of([(none, NOISE, 5)] * 3)) is None


def test_chains_price_their_region() -> None:
    """No chain inside random regions loses more than those that price it, whatever the tilt and the stride."""
    found = evaluation.priced(25, seed=11)
    assert found.tried > 60
    assert found.usual <= 1e-9
    assert found.extreme <= 0.04


def test_intervals_meet_join_and_are_written() -> None:
    """Intersections, hulls, membership, and their JSON, exactly."""
    one = RegimeIntervals((0.3, 0.5), (0.0, 0.4), (0.001, 0.01), (0.2, 1.0))
    two = RegimeIntervals((0.4, 0.6), (0.1, 0.5), (0.002, 0.02), (0.1, 0.9))
    assert one.intersect(two) == RegimeIntervals((0.4, 0.5), (0.1, 0.4), (0.002, 0.01), (0.2, 0.9))
    assert one.hull(two) == RegimeIntervals((0.3, 0.6), (0.0, 0.5), (0.001, 0.02), (0.1, 1.0))
    assert one.hull(two).contains(one)
    assert not one.contains(two)
    assert RegimeIntervals.of_tree(one.as_tree()) == one
    with pytest.raises(ValueError, match="no chain in common"):
        one.intersect(RegimeIntervals((0.6, 0.7), (0.0, 0.4), (0.001, 0.01), (0.2, 1.0)))
    assert 2 <= len(one.chains((0.2, 0.5))) <= 18
