"""`hushmq plan` on recordings that are no first-order chains: regimes are fitted, and the better maker is chosen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hushmq.__main__ import main
from hushmq.plan.fit_regimes import fit_regimes
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

SLOW = RegimeChain.of([[0.995, 0.005], [0.005, 0.995]], [(0.1, 0.4), (0.4, 0.1)])


def recorded(chain: RegimeChain, rows: int, seed: int) -> list[int]:
    """The bits of a stationary chain."""
    rng = np.random.default_rng(seed)
    below = np.cumsum(chain.kernel, axis=1)
    state, found = 0, []
    for draw in rng.random(rows):
        state = int((draw > below[state]).sum())
        found.append(state % 2)
    return found


def test_what_was_simulated_is_fitted() -> None:
    """Its share, both rates and how much of the time the upper regime lasts, from a long recording."""
    found = fit_regimes(recorded(SLOW, 120_000, 1))
    assert found.coordinates.share == pytest.approx(0.5, abs=0.03)
    assert found.coordinates.slow_rate == pytest.approx(0.01, rel=0.25)
    assert found.coordinates.fast_rate == pytest.approx(0.5, rel=0.15)
    assert found.upper_time == pytest.approx(0.5, abs=0.1)
    assert found.excess > 0.2
    lone = RegimeChain.of([[1.0]], [(0.2, 0.3)])
    assert fit_regimes(recorded(lone, 20_000, 2)).excess < 0.05
    with pytest.raises(ValueError, match="too few"):
        fit_regimes([0, 1] * 100)


def test_regimes_and_the_maker_are_chosen_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each device makes its own releases where they are wanted, which has less error; it can be asked for otherwise."""
    path = tmp_path / "recording.csv"
    path.write_text("".join(f"{bit}\n" for bit in recorded(SLOW, 12_000, 3)))
    words = f"plan --recording {path} --every 1s --devices 40 --window odd=1009s --per-device --json".split()
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)["presence"]
    regimes, against, whom, maker, price = found["reasons"]
    assert "chains of 2 regimes" in regimes
    assert "nothing is promised to anybody else" in whom
    assert price.startswith("the price of covering")
    assert against.startswith("the prior adversary")
    assert maker.startswith("each device counts")
    assert main([*words, "--made-by", "stream"]) == 0
    asked = json.loads(capsys.readouterr().out)["presence"]
    assert len(asked["reasons"]) == 4
    errors = [
        {one["scope"]: one["standard_error"] for one in each["first_windows"]} for each in (found, asked)
    ]
    assert errors[0]["device"] < errors[1]["device"]
    assert {one["made_by"] for one in found["first_windows"]} == {"device"}
    assert {one["made_by"] for one in asked["first_windows"]} == {"calibrator"}


@pytest.mark.parametrize("option", ["--regimes no", "--adversary informed"])
def test_first_order_chains_can_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """The informed adversary is not covered for regimes."""
    path = tmp_path / "recording.csv"
    path.write_text("".join(f"{bit}\n" for bit in recorded(SLOW, 4_000, 4)))
    words = f"plan --recording {path} --every 1s --period 1s --devices 9 --window odd=1009s --made-by stream --json"
    assert main([*words.split(), *option.split()]) == 0
    found = json.loads(capsys.readouterr().out)["presence"]
    assert found["reasons"] == []
    assert "q" in found["first"]["theta"] or "q_low" in found["first"]["theta"]
