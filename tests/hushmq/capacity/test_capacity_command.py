"""`hushmq capacity` at the command line: figures, a policy's windows, bad input, and a short measurement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.capacity import measure_site, measure_windows
from hushmq.capacity.unit_costs import published_costs, read_costs

POLICY = """
cohort = "ward"
[streams.motion]
states = ["still", "moving"]
period_ms = 10000
stride = 3
adversary = "prior"
discretiser = { kind = "threshold", at = 1.0 }
epsilon = { operator = 4.0, public = 1.0 }
[streams.motion.theta]
start = { q = { low = 0.15, high = 0.45 }, r = { low = 0.15, high = 0.45 } }
floor = { q = { low = 0.25, high = 0.3 }, r = { low = 0.25, high = 0.3 } }
[streams.motion.windows]
quarter = { ticks = 90, scopes = ["cohort", "device"] }
"""


@pytest.fixture(autouse=True)
def _nothing_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["capacity", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_figures_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each, what breaks first, and on which machine costs were measured: not on this one."""
    code, out, _ = told(capsys, "--devices", "1000")
    assert code == 0
    for words in (
        "200.0 /s",
        "rows written",
        "breaks first: ",
        "published with hushmq, and not of this machine",
    ):
        assert words in out
    assert published_costs().machine.words() in out


def test_a_policy_says_the_same_as_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Windows, period, stride and scopes are read from it."""
    path = tmp_path / "policy.toml"
    path.write_text(POLICY)
    _, by_policy, _ = told(capsys, "--devices", "500", "--policy", str(path), "--json")
    windows = ("--window", "15min", "--window", "15min:device")
    _, by_options, _ = told(
        capsys, "--devices", "500", "--stride", "3", "--period", "10s", *windows, "--json"
    )
    one, two = json.loads(by_policy), json.loads(by_options)
    assert one["batches_per_s"] == two["batches_per_s"] == pytest.approx(500 / 30)
    assert one["releases_per_day"] == two["releases_per_day"] == 96 * 501
    assert one["breaks"][0]["then"]
    assert one["costs"]["which"].startswith("published")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--devices: missing; give how many, or --measure"),
        (["--devices", "0"], "'0' is not a whole number from 1 on"),
        (["--devices", "many"], "'many' is not a whole number from 1 on"),
        (["--devices", "5", "--cohorts", "6"], "--cohorts: 6 cohorts for 5 devices"),
        (["--devices", "5", "--window", "15m"], "'15m' is no duration"),
        (["--devices", "5", "--window", "15min:house"], "the scope is cohort or device"),
        (["--devices", "5", "--window", "1s"], "--window: 1 s is no whole number of ticks of 10 s"),
        (["--devices", "5", "--window", "10s", "--stride", "3"], "no whole number of strides of 30 s"),
        (["--devices", "5", "--states", "1"], "--states: 1 is not from 2 to 256"),
        (["--devices", "5", "--postgres", "x"], "--postgres: it is for --measure"),
        (["--measure", "--postgres", "sqlite://"], "--postgres: give the URL of a database of PostgreSQL"),
        (["--devices", "5", "--costs", "/nowhere"], "--costs: /nowhere: No such file or directory"),
        (["--devices", "5", "--policy", "/nowhere.toml"], "/nowhere.toml: No such file or directory"),
        (["--devices", "5", "--policy", "x", "--period", "1s"], "--period: the policy says it"),
    ],
)
def test_bad_input(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the option, and exit code 2."""
    code, out, err = told(capsys, *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err


def test_a_damaged_file_of_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, with what to do."""
    path = tmp_path / "costs.json"
    path.write_text('{"costs": 1, "machine": {}}')
    code, _, err = told(capsys, "--devices", "5", "--costs", str(path))
    assert (code, "measure again with hushmq capacity --measure" in err) == (2, True)


@pytest.mark.slow
def test_measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A short measurement against a real broker and calibrator is stored, and read from then on."""
    for module, name, value in (
        (measure_site, "DEVICES", 4),
        (measure_site, "MESSAGES", 200),
        (measure_site, "FEW_MESSAGES", 50),
        (measure_windows, "FEW", 2),
        (measure_windows, "MANY", 6),
        (measure_windows, "LONG", 400),
    ):
        monkeypatch.setattr(module, name, value)
    code, out, _ = told(capsys, "--measure")
    assert code == 0
    assert "hushmq capacity reads it from now on" in out
    costs, which = read_costs(None)
    assert which == f"from {tmp_path / 'data' / 'hushmq' / 'unit-costs.json'}"
    assert 1e-5 < costs.databases["sqlite"].batch_s + costs.databases["sqlite"].turn_s < 1.0
    assert 500 < costs.databases["sqlite"].release_bytes < 20_000
    assert costs.brokers["nats"].batch_s >= 0
    code, out, _ = told(capsys, "--devices", "10")
    assert (code, "published" in out) == (0, False)
