"""Chains that cover people who were not recorded: wider with few recordings and a higher coverage."""

from __future__ import annotations

import json
import math
from pathlib import Path
from random import Random

import pytest

from hushmq.__main__ import main
from hushmq.calibrator.models.regime.regime_coordinates import RegimeCoordinates
from hushmq.plan.fit_regimes import FittedRegimes, listed
from hushmq.plan.pilot_margin import Margin, contrast, covered_when_left_out, covers
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from tests.hushmq.plan.test_plan_regimes import recorded


def person(slow_time: float, odds: float = 0.0, far: float = 1.5, fast_time: float = 2.0) -> FittedRegimes:
    """Whose regimes last some ticks, with log-odds so far from the overall ones on both sides."""
    lower, share, upper = (1 / (1 + math.exp(-odds - step)) for step in (-far, 0.0, far))
    time = (share - lower) / (upper - lower)
    between = RegimeCoordinates(share, 1.0, 1 / slow_time, 1 / fast_time).between
    slow_share = time * (1 - time) * (upper - lower) ** 2 / between
    return FittedRegimes(RegimeCoordinates(share, slow_share, 1 / slow_time, 1 / fast_time), time, 0.3)


PILOT = [person(50, -0.3, 1.2), person(80, 0.1, 1.6), person(200, 0.2, 1.4), person(120, -0.1, 1.7)]


def test_the_bounds_are_those_of_a_prediction() -> None:
    """Half of all people are slower than the mean; a higher coverage lies farther out, and so do fewer recordings."""
    middle = Margin.of(PILOT, 0.5)
    assert middle.slow_time == pytest.approx((50 * 80 * 200 * 120) ** 0.25)
    assert middle.contrast == pytest.approx((1.2 + 1.6 + 1.4 + 1.7) / 4)
    spread = math.sqrt(sum((one - 1.475) ** 2 for one in (1.2, 1.6, 1.4, 1.7)) / 3)
    assert Margin.of(PILOT, 0.9).contrast == pytest.approx(
        1.475 + 1.637744 * spread * math.sqrt(5 / 4), rel=1e-6
    )
    times = [Margin.of(PILOT, coverage).slow_time for coverage in (0.5, 0.75, 0.9, 0.95)]
    assert times == sorted(times)
    twice = Margin.of([*PILOT, *PILOT], 0.9)
    assert twice.slow_time < Margin.of(PILOT, 0.9).slow_time
    with pytest.raises(ValueError, match="one recording"):
        Margin.of(PILOT[:1], 0.9)


def test_the_bounds_hold_a_new_person_as_often_as_they_say() -> None:
    """Of 1,500 pilots of three and new persons, 90% are within each bound, to 2.5%."""
    draw = Random(7)

    def anyone() -> FittedRegimes:
        return person(100 * math.exp(0.5 * draw.gauss()), 0.1 * draw.gauss(), 1.5 + 0.1 * draw.gauss())

    tried, slow, far, odds = 1_500, 0, 0, 0
    for _ in range(tried):
        margin, new = Margin.of([anyone() for _ in range(3)], 0.9), anyone()
        slow += 1 / new.coordinates.slow_rate <= margin.slow_time
        far += contrast(new) <= margin.contrast
        share = new.coordinates.share
        odds += margin.odds[0] <= math.log(share / (1 - share)) <= margin.odds[2]
    assert [one / tried for one in (slow, far, odds)] == pytest.approx([0.9] * 3, abs=0.025)


def test_its_chains_are_at_the_bounds_and_cost_most() -> None:
    """Their noise covers all who were recorded, and whoever is slower and differs more is not covered by less."""
    margin = Margin.of(PILOT, 0.9)
    for chain, odds in zip(margin.chains(), margin.odds, strict=True):
        assert math.log(chain.ones / (1 - chain.ones)) == pytest.approx(odds, abs=1e-9)
        far = [math.log(q / r) - odds for q, r in chain.chains]
        assert far == pytest.approx([-margin.contrast, margin.contrast])
        assert 1 / chain.slowest_rate == pytest.approx(margin.slow_time, rel=1e-6)
    wider = RegimeTheta.of(margin.chains())
    assert all(covers(wider, one.chain, (4.0, 2.0), "prior") for one in PILOT)
    alone, _ = listed(PILOT)
    assert not covers(alone, margin.chains()[1], (4.0, 2.0), "prior")
    assert min(wider.largest_tilts(2.0, "prior")) < min(alone.largest_tilts(2.0, "prior"))


def test_leaving_one_out_finds_who_is_not_like_the_others() -> None:
    """Three alike are covered by each other's margin; one who is far beyond them is not."""
    alike = [person(time, far=far) for time, far in ((100, 1.5), (110, 1.45), (95, 1.52))]
    assert covered_when_left_out(alike, 0.95, (2.0,), "prior") == 3
    assert covered_when_left_out([*alike, person(5000, far=3.5)], 0.9, (2.0,), "prior") == 3


@pytest.mark.slow
def test_plan_says_whom_it_covers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three recordings: with a margin by default, without one and with a warning where it is asked for so."""
    words = [
        "plan",
        "--every",
        "1s",
        "--devices",
        "40",
        "--window",
        "odd=1009s",
        "--made-by",
        "stream",
        "--json",
    ]
    for place, slow in enumerate((0.004, 0.006, 0.01)):
        chain = RegimeChain.of([[1 - slow, slow], [slow, 1 - slow]], [(0.1, 0.4), (0.4, 0.1)])
        path = tmp_path / f"{place}.csv"
        path.write_text("".join(f"{bit}\n" for bit in recorded(chain, 6_000, place)))
        words += ["--recording", str(path)]
    found = {}
    for coverage in ("0.9", "0"):
        assert main([*words, "--coverage", coverage]) == 0
        found[coverage] = json.loads(capsys.readouterr().out)["presence"]
    whom, left_out, few, price = found["0.9"]["reasons"][2:]
    assert price.startswith(
        "the price of covering more than the recorded ones (--coverage 0): odd of the cohort ±"
    )
    assert whom.startswith(
        "a new person is covered with a probability of 0.9, if people differ as these 3 do"
    )
    assert "of the 3 recordings would be covered" in left_out
    assert few.startswith("WARNING: 3 recordings tell little")
    (alone,) = found["0"]["reasons"][2:]
    assert alone.startswith("WARNING: Θ has the chains of these 3 recordings")
    errors = [found[coverage]["first_windows"][0]["standard_error"] for coverage in ("0", "0.9")]
    assert errors[0] < errors[1]
    assert main([*words, "--coverage", "0.3"]) == 2
    assert "neither 0 nor a probability" in capsys.readouterr().err
