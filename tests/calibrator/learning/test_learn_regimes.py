"""Learning chains with hidden regimes: Θ becomes fewer of the chains that the policy lists, and never another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection

from hushmq.calibrator.learning.learn_window import ThetaUpdate, learn_window
from hushmq.calibrator.learning.learning_progress import read_progress, write_progress
from hushmq.calibrator.learning.stream_theta import (
    MOST_UNDETECTABLE,
    cohort_theta,
    device_thetas,
    misfit_of_stream,
)
from hushmq.calibrator.models.regime.listed_chains import chains_left, place_of
from hushmq.calibrator.models.regime.long_bands import LONG_BANDS
from hushmq.calibrator.models.regime.regime_coordinates import RegimeCoordinates
from hushmq.calibrator.models.regime.regime_intervals import RegimeIntervals
from hushmq.calibrator.models.regime_set_model import REGIMES, RegimeModel
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from tests.calibrator.site import ledger_with

simulation = pytest.importorskip("hushmq.evaluation.estimation.sanitized_regimes")

STREAM, NOISE, STRIDE = "pulse", BinaryNoise(0.1, 0.12), 30
TICKS, TILT = 1440 * STRIDE, 2_000_000_000
SLOW_RATES = (1 / 60, 1 / 240, 1 / 960, 1 / 3840)


def chain(share: float, slow_share: float, slow_rate: float, fast_rate: float = 0.4) -> RegimeChain:
    found = RegimeCoordinates(share, slow_share, slow_rate, fast_rate)
    ends = found.upper_times()
    assert ends is not None
    return found.chain(min(ends[1], max(ends[0], 0.4)))


LISTED = RegimeTheta.of(
    chain(share, slow_share, slow)
    for share, slow_share, slow in product((0.35, 0.5), (0.3, 0.55), SLOW_RATES)
)
FLOOR = RegimeTheta.of([chain(0.5, 0.3, 1 / 60)])
MODEL = RegimeModel.of(LISTED, STRIDE)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Connection]:
    with ledger_with(tmp_path, {(STREAM, 1): NOISE}) as connection:
        yield connection


def take(db: Connection, chains: Sequence[RegimeChain], windows: int, *, seed: int) -> list[ThetaUpdate]:
    """Devices with these chains go on for so many windows."""
    rng = np.random.default_rng(seed)
    states = simulation.sanitized(chains, NOISE, stride=STRIDE, count=windows * TICKS // STRIDE, rng=rng)
    found = []
    for number in range(windows):
        part = states[:, number * TICKS // STRIDE : (number + 1) * TICKS // STRIDE]
        sums = simulation.counted(part, stride=STRIDE, window=TICKS)
        window = [
            ExactStatistics(f"d{place}", 1, one.ticks, one.starts, one.groups)
            for place, one in enumerate(sums)
        ]
        found.append(learn_window(db, STREAM, MODEL, window, tilt=TILT))
    return found


def cohort(db: Connection) -> RegimeTheta:
    found = cohort_theta(db, STREAM, MODEL, start=LISTED, floor=FLOOR, misfit="report")
    assert isinstance(found, RegimeTheta)
    return found


def slowest(theta: RegimeTheta) -> float:
    return min(one.slowest_rate for one in theta.members)


def test_a_cohort_narrows_theta_and_the_noise_follows(db: Connection) -> None:
    """Listed chains that the evidence excludes are gone, the devices' own and the floor's are not; the noise for what
    is left lets more than twice the signal through.
    """
    own = chain(0.5, 0.3, 1 / 60)
    assert cohort(db) == LISTED
    steps = take(db, [own] * 8, 4, seed=1)
    assert [one.outcome for one in steps] == ["held", "held", "held", "updated"]
    found = cohort(db)
    assert LISTED.contains(found)
    assert found.contains(RegimeTheta.of([own]))
    assert found.contains(FLOOR)
    assert slowest(found) > 2 * slowest(LISTED)
    before, after = (one.optimal_noise(2.0, "prior", stride=STRIDE).signal for one in (LISTED, found))
    assert after > 2 * before
    each = device_thetas(db, STREAM, MODEL, start=LISTED, floor=FLOOR, misfit="report")
    assert len(each) == 8
    assert all(found.contains(one) for one in each.values())


def test_slow_devices_keep_the_slow_chains(db: Connection) -> None:
    """What the devices may be is never given up, whatever else is."""
    own = chain(0.5, 0.55, 1 / 960)
    take(db, [own] * 8, 4, seed=2)
    found = cohort(db)
    assert found.contains(RegimeTheta.of([own]))
    assert set(found.members) < set(LISTED.members)


def test_too_short_a_time_says_nothing(db: Connection) -> None:
    """Who has not been seen for ten slow times of the slowest listed chain may have been in one regime all the time."""
    patient = RegimeModel(STRIDE, 1.01 * 4 * TICKS)
    rng = np.random.default_rng(3)
    states = simulation.sanitized(
        [FLOOR.members[0]] * 4, NOISE, stride=STRIDE, count=TICKS // STRIDE, rng=rng
    )
    window = [
        ExactStatistics(f"d{place}", 1, one.ticks, one.starts, one.groups)
        for place, one in enumerate(simulation.counted(states, stride=STRIDE, window=TICKS))
    ]
    assert [learn_window(db, STREAM, patient, window, tilt=TILT).outcome for _ in range(4)][-1] == "tested"
    assert cohort(db) == LISTED
    assert misfit_of_stream(db, STREAM, patient) is None


def test_slow_chains_stay_while_a_misfit_could_be_hidden(db: Connection) -> None:
    """All that one found later would bring back; what the evidence excludes otherwise is gone."""
    take(db, [chain(0.5, 0.3, 1 / 60)] * 3, 4, seed=4)
    now = read_progress(db, STREAM)
    assert now.undetectable < MOST_UNDETECTABLE
    known = cohort_theta(db, STREAM, MODEL, start=LISTED, floor=FLOOR)
    write_progress(db, STREAM, replace(now, persistent_shares=(0.0,) * 8 + (0.2,)))
    found = cohort_theta(db, STREAM, MODEL, start=LISTED, floor=FLOOR)
    write_progress(db, STREAM, replace(now, undetectable=1.1 * MOST_UNDETECTABLE))
    hidden = cohort_theta(db, STREAM, MODEL, start=LISTED, floor=FLOOR)
    assert hidden == found
    assert isinstance(hidden, RegimeTheta)
    assert slowest(hidden) < 1.01 * slowest(LISTED)
    assert LISTED.contains(hidden)
    assert hidden.contains(known)
    assert hidden != known
    region = RegimeIntervals((0.49, 0.51), (0.2, 0.4), (0.01, 0.02), (0.3, 0.5))
    assert slowest(chains_left(LISTED, region)) > 2 * slowest(LISTED)
    assert slowest(MODEL.within(LISTED, MODEL.slowed(region, (0.0, 0.1)))) < 1.01 * slowest(LISTED)


def test_a_listed_chain_lies_where_its_coordinates_are() -> None:
    """All that a region may hold of it: random chains of two regimes have their own coordinates in their place."""
    rng = np.random.default_rng(5)
    held = tried = 0
    while tried < 60:
        slow_rate, fast_rate = (
            float(np.exp(rng.uniform(*np.log(ends)))) for ends in ((2**-12, 0.05), (0.15, 0.95))
        )
        found = RegimeCoordinates(rng.uniform(0.3, 0.6), rng.uniform(0.1, 0.7), slow_rate, fast_rate)
        if (ends := found.upper_times()) is None:
            continue
        tried += 1
        place = place_of(found.chain((ends[0] + ends[1]) / 2)).possible
        off = (place.share[0] - 1e-9, place.share[1] + 1e-9)
        held += RegimeIntervals(off, *place.sides[1:]).holds(found)
    assert held == tried


def test_a_region_between_listed_chains_keeps_both_neighbours() -> None:
    """A slow rate between two of the list leaves both; one beyond the list leaves its end; no neighbour, all."""
    alike = RegimeTheta.of(chain(0.5, 0.55, slow) for slow in SLOW_RATES)

    def left(low: float, high: float, share: tuple[float, float] = (0.45, 0.55)) -> list[int]:
        region = RegimeIntervals(share, (0.5, 0.6), (low, high), (0.3, 0.5))
        rates = [round(1 / one.slowest_rate) for one in chains_left(alike, region).members]
        return sorted(rates)

    assert left(1 / 520, 1 / 480) == [240, 960]
    assert left(1 / 100_000, 1 / 50_000) == [3840]
    assert left(1 / 80, 1 / 50) == [60, 240]
    assert left(1 / 50, 1 / 40) == [60]
    assert left(1 / 520, 1 / 480, (0.9, 0.95)) == [240, 960]
    scattered = RegimeTheta.of([chain(0.35, 0.55, 1 / 60), chain(0.5, 0.55, 1 / 3840)])
    region = RegimeIntervals((0.3, 0.33), (0.5, 0.6), (1 / 100_000, 1 / 50_000), (0.3, 0.5))
    assert chains_left(scattered, region) == scattered


def test_one_regime_may_have_any_slow_rate() -> None:
    """A chain without regimes has no slow share, and is left wherever there may be none."""
    plain = RegimeChain.of([[1.0]], [(0.2, 0.2)])
    place = place_of(plain).possible
    assert place.slow_share[0] == 0.0
    assert place.slow_rate[0] < 1 / 4000
    assert place.slow_rate[1] == 1.0


def test_regions_are_stored_and_priced() -> None:
    """Exactly; and what a device that is left out may have lost is priced by the chains at its region's slow end."""
    region = RegimeIntervals((0.3, 0.5), (0.1, 0.4), (0.001, 0.01), (0.2, 0.9))
    assert REGIMES.read_region(region.as_tree()) == region
    theta = REGIMES.theta_of(region)
    assert 0.0 < theta.constant_loss(0.1, 0.1, "prior", stride=10) < np.inf


@pytest.mark.parametrize(("stride", "bands"), [(1, 9), (1, 6), (5, 8), (300, 3)])
def test_only_what_was_counted_has_noise(stride: int, bands: int) -> None:
    """Of a stride the short bands have no lag: they have no noise and cost nothing."""
    model = RegimeModel(stride)
    groups = [[1000], *([0] for _ in range(9))]
    drawn = [model.add_noise([groups], tilt=10_000_000, bands=bands)[0] for _ in range(8)]
    moved = [any(one[place] != groups[place] for one in drawn) for place in range(10)]
    first = next(place for place, (_, last) in enumerate(LONG_BANDS, start=1) if last >= stride)
    assert moved == [place == 0 or first <= place < first + bands for place in range(10)]
    assert model.noise_variance(tilt=10_000_000, bands=bands) > 1e4
