"""The attack suite in its quick form: what each attack reached, and reaches now; and that the attacks are sharp."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushmq.evaluation.attackers.hidden import Hidden
from hushmq.evaluation.attacks import attack_suite
from hushmq.evaluation.attacks.attack_outcome import AttackOutcome
from hushmq.evaluation.attacks.mixture_attack import NARROW, README, refused, worst_transcript
from hushmq.evaluation.attacks.presence_attack import (
    DAY,
    agent_headers,
    door_events,
    guesses,
    least_loss,
    old_headers,
)
from hushmq.evaluation.attacks.watched_states import Noticed, watched
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from tests.evaluation.conftest import Result
from tests.recordings import needs_data


def of(rows: list[dict[str, Any]], attack: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["attack"] == attack]


@needs_data
def test_the_suite(quick: Callable[..., Result]) -> None:
    """Every attack exceeded its ε before; what exceeds it now is named among the findings."""
    found = quick("attacks")
    rows = found.table("attacks")
    assert all(row["loss before"] > row["ε"] for row in rows)
    (door,) = of(rows, "presence")
    assert "72 of 72 events found before, 0 now" in door["confidence"]
    assert door["loss now"] == 0.0
    default, many, pair = of(rows, "mixture")
    assert default["loss now"] == many["loss before"] == pytest.approx(np.log(9), abs=0.1)
    assert many["loss now"] is None
    assert pair["loss now"] < 1 < pair["loss before"]
    (changed,) = of(rows, "policy change")
    assert changed["loss before"] == pytest.approx(14.7, abs=1)
    assert changed["kept"] == "yes"
    (invented,) = of(rows, "invented devices")
    assert invented["loss before"] == pytest.approx(6.12, abs=0.1)
    assert invented["loss now"] <= invented["loss before"]
    (service,) = found.table("service")
    assert service["released before"] < service["windows"]
    assert service["released now"] > service["released before"]
    several = of(rows, "several streams")
    assert [row["loss before"] for row in several[::2]] == pytest.approx([6.0, 7.3, 9.2], abs=0.1)
    assert all(3.99 < row["loss now"] <= 4 for row in several)
    first, later, once = of(rows, "stale reading")
    assert first["loss before"] == pytest.approx(41, abs=1)
    assert first["loss now"] > 30
    assert (later["loss now"], once["kept"]) == (pytest.approx(np.log(9)), "yes")
    assert [row["kept"] for row in of(rows, "regimes")][1:] == ["yes", "yes"]
    lost = [row for row in rows if row["kept"] == "NO"]
    assert len(found.findings("loses")) == len(lost)


def test_without_recordings_the_rest_runs(
    quick: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The regime attack is skipped with its reason."""
    both = {name: attack_suite.ATTACKS[name] for name in ("regimes", "presence")}
    monkeypatch.setattr(attack_suite, "ATTACKS", both)
    found = quick("attacks", "--data", tmp_path)
    assert [row["attack"] for row in found.table("attacks")] == ["presence"]
    assert any("normal_N1-N11" in text for text in found.findings("skipped"))


def test_headers_are_those_of_the_schedule() -> None:
    """A day with events and a day without any have the same headers; under the rule of before they had not."""
    events = door_events(np.random.default_rng(1))
    assert agent_headers(events) == agent_headers([])
    assert sum(count for _, count in agent_headers(events)) > DAY - 20
    assert list(guesses(old_headers(events))) == events
    assert list(guesses(agent_headers(events))) == []
    assert least_loss(72, 72, 0, 20_000) > 8
    assert least_loss(0, 72, 0, 20_000) == 0


def test_a_loss_above_epsilon_is_not_kept() -> None:
    kept = [AttackOutcome("a", "b", 1.0, 2.0, after, "exact", "").kept for after in (None, 1.0, 1.001)]
    assert kept == [True, True, False]


def test_the_mixture_attack_is_sharp() -> None:
    """It reaches Theorem 27's limit: noise with a little more tilt than the limit allows is caught."""
    assert refused(README, 4.3)
    assert not refused(README, 4.5)
    theta = BinaryTheta(0.1, 0.2, 0.2, 0.2)
    noise = BinaryNoise.of_tilts(0.4, 0.01)
    inside = loss(BinaryTheta.point(0.1, 0.2), tau0=noise.tau0, tau1=noise.tau1, adversary="prior")
    limit = theta.odds_spread + inside
    assert limit - 1e-3 < worst_transcript(theta, noise) <= limit
    assert limit <= loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary="undecided")
    least = optimal_noise(NARROW, 1.0, "undecided")
    assert worst_transcript(NARROW, least) <= 1.0
    assert worst_transcript(NARROW, BinaryNoise.of_tilts(1.3 * least.tau0, 1.3 * least.tau1)) > 1.0


def test_a_chain_of_theta_raises_no_alarm() -> None:
    """The watch that notices a stale reading is silent on a chain of Θ, and hears one that is repeated."""
    theta, rng = BinaryTheta(0.05, 0.45, 0.05, 0.45), np.random.default_rng(5)
    paths = Hidden(0.1, 0.1, BinaryNoise(0.4, 0.4)).paths(20, 2000, rng).astype(np.int64)
    assert [watched(theta, path) for path in paths] == [Noticed(None, None)] * 20
    for path in paths:
        found = watched(theta, np.repeat(path[:40], 120))
        assert found.warned is not None
        assert found.replaced is not None
        assert found.warned <= found.replaced + 20
