"""`hushmq plan` says what can be had, from dwell times or a recording, and writes a policy that push takes."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.commands.policy_file import check_policy, read_policy
from hushmq.broker.forecast.stream_plan import plan_policy
from hushmq.plan.read_recording import read_recording

FAST = "plan --lasting 2s,3s --states still,moving --devices 8 --window minute=60s --window hour=1h"


def said(capsys: pytest.CaptureFixture[str], words: str) -> str:
    assert main(words.split()) == 0
    return capsys.readouterr().out


def test_a_written_policy_is_the_one_that_was_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read again, it forecasts the same numbers; its comments say what each part means."""
    path = tmp_path / "policy.toml"
    found = json.loads(said(capsys, f"{FAST} --period 500ms --write {path} --json"))["presence"]
    policy = check_policy(read_policy(path), path, version=1)
    (plan,) = plan_policy(policy, {"presence": 8}).values()
    assert json.loads(json.dumps(plan.as_tree())) == {
        key: value for key, value in found.items() if key not in {"period", "reach", "periods", "reasons"}
    }
    assert "# forecast: window minute of the cohort (8 devices)" in path.read_text()
    assert main([*FAST.split(), "--write", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_the_best_period_is_no_worse_than_its_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    """Of all that were tried, the one with the narrowest interval is taken, and it is inside of the range tried."""
    found = json.loads(said(capsys, f"{FAST} --json"))["presence"]
    widths = dict(found["periods"])
    assert widths[found["period"]] == min(widths.values())
    assert min(widths) < found["period"] < max(widths)
    assert found["best_windows"][0]["half_width"] == widths[found["period"]]


def test_states_that_last_for_hours_are_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """The policy that was accepted in silence: one person, home for hours, a state every minute."""
    told = said(capsys, "plan --lasting 9h,15h --devices 1 --period 1min --window hour=1h --states away,home")
    assert "WARNING: window hour for the cohort of 1 tells less than no data" in told
    assert "away 9 h, home 15 h on average; 1 device;" in told


def test_what_reaches_a_wanted_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The devices at the given ε, and the ε with the given devices; without --epsilon the plan uses the latter."""
    told = said(capsys, f"{FAST} --period 500ms --error 0.05")
    assert "to know minute within ±0.05 once Θ is learned:" in told
    found = json.loads(said(capsys, f"{FAST} --period 500ms --error 0.05 --json"))["presence"]
    assert found["best_windows"][0]["half_width"] <= 0.05
    assert f"ε {found['reach']['epsilon']:.3g} for operators" in told
    fixed = json.loads(said(capsys, f"{FAST} --period 500ms --error 0.05 --epsilon 4 --json"))["presence"]
    assert fixed["best_windows"][0]["half_width"] > 0.05


def chain(q: float, r: float, length: int) -> list[int]:
    draw, state, states = random.Random(5), 0, []
    for _ in range(length):
        state = int(draw.random() < q) if state == 0 else int(draw.random() >= r)
        states.append(state)
    return states


def test_a_recording_is_fitted_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The chain that made it is in the floor, and the floor is in the start, at every stride; nothing of it is said."""
    path = tmp_path / "home.csv"
    states = chain(0.1, 0.2, 5000)
    path.write_text("time,state\n" + "".join(f"{t},{['away', 'home'][x]}\n" for t, x in enumerate(states)))
    recording = read_recording(path, "state", ("away", "home"), None)
    for stride in (1, 4):
        found = recording.assumption(stride, start=2.0, floor=1.0)
        forgotten = 1 - (1 - 0.3) ** stride
        assert found.floor.q.low <= forgotten / 3 <= found.floor.q.high  # type: ignore[union-attr]
        assert found.floor.r.low <= 2 * forgotten / 3 <= found.floor.r.high  # type: ignore[union-attr]
        assert found.start.contains(found.floor)
    assert recording.dwell() == pytest.approx([10, 5], rel=0.1)
    told = said(capsys, f"plan --recording {path} --column state --every 1s --devices 20 --window hour=1h")
    assert "away" in told
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("value\n" + "".join(f"{20 + 5 * x}\n" for x in states))
    assert said(capsys, f"plan --recording {numbers} --threshold 22 --every 1s --window hour=1h")


def test_a_recording_of_three_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """More than two states are planned from a recording, against an adversary that is proved for them."""
    draw, state, lines = random.Random(7), 0, []
    for _ in range(4000):
        if draw.random() < 0.5:
            state = draw.randrange(3)
        lines.append("abc"[state])
    path = tmp_path / "three.csv"
    path.write_text("\n".join(lines))
    words = f"plan --recording {path} --every 1s --window hour=1h --adversary prior --devices 50 --period 1s"
    assert "a 2.95 s, b 2.83 s, c 2.87 s on average" in said(capsys, words)


def test_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The figure and the screen are written as pictures."""
    figure, screen = tmp_path / "f.svg", tmp_path / "s.svg"
    said(capsys, f"{FAST} --output {figure} --picture {screen}")
    assert "<svg" in figure.read_text()
    assert "hushmq&#160;plan" in screen.read_text()
    assert 'url("http' not in screen.read_text(), "a picture loads nothing"


def test_odds_are_those_of_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    """In words for each audience, rounded up."""
    told = said(capsys, f"{FAST} --period 1s --epsilon 1.5 --public 0.58")
    after = 1 / (1 + math.exp(-1.5) * 0.4 / 0.6)
    assert f"becomes at most {math.ceil(100 * after)}%" in told
    assert "becomes at most 73%" in told


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--window day=24h", "--lasting: give either it, or --recording"),
        ("--lasting 1h,2h --recording x.csv --window day=24h", "--lasting: give either it, or --recording"),
        ("--lasting 1h --window day=24h", "--lasting: '1h' is not two durations"),
        ("--lasting 1h,x --window day=24h", "--lasting: 'x' is no duration"),
        ("--lasting 1h,2h", "--window: missing"),
        ("--lasting 1h,2h --window day", "--window: '' is no duration"),
        ("--lasting 1h,2h --window Day=1h", "--window: 'Day'"),
        ("--lasting 1h,2h --window a=1s --period 1min", "--window: a is shorter than the period"),
        ("--lasting 1h,2h --window a=1h --devices 0", "--devices: 0 is out of range"),
        ("--lasting 1h,2h --window a=1h --epsilon 21", "--epsilon: 21 is above 20"),
        ("--lasting 1h,2h --window a=1h --epsilon -1", "--epsilon"),
        ("--lasting 1h,2h --window a=1h --states a,a", "--states: 'a,a' is no list of different names"),
        ("--lasting 1h,2h --window a=1h --states a,b,c", "--states: --lasting is for two states"),
        ("--lasting 1h,2h --window a=1h --output x.pdf", "--output: x.pdf does not end in .png or .svg"),
        ("--lasting 1h,2h --window a=1h --write no/x.toml", "--write: no is no folder"),
        ("--lasting 1h,2h --window a=1h --stream A", "--stream: "),
        ("--recording none.csv --every 1s --window a=1h", "--recording: none.csv: No such file"),
        ("--recording none.csv --window a=1h", "--every: missing"),
    ],
)
def test_a_bad_option_is_told_in_one_line(
    words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *words.split()]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
