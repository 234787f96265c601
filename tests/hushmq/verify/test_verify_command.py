"""`hushmq verify` and `python -m hushmq.verify` as processes, on what `hushmq ledger export` wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.message_base import Message
from hushmq.broker.contract.messages import Account, LedgerState, NoiseSetting, Release
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.calibrator.store.tables import epoch, ledger
from hushmq.verify.export_file import KNOWN
from tests.calibrator.site import CALIBRATOR, OPS, STRANGER, desk, policy, sqlite
from tests.hushmq.verify.exported import TWO, sealed_again


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrator's folder, and the bundle that its ledger exports."""
    folder = tmp_path_factory.mktemp("site")
    with desk(sqlite(folder)) as here:
        here.adopt(policy(windows=TWO))
        for number in range(2):
            here.window(number)
            here.cohort.close_due()
    key, password = folder / "signing.key", folder / "password"
    CALIBRATOR.save(key)
    password.touch(mode=0o600)
    password.write_text("secret\n")
    config = folder / "calibrator.toml"
    config.write_text(f"""
cohort = "test"
database = "{sqlite(folder)}"
[broker]
urls = ["mqtt://127.0.0.1:1"]
username = "calibrator"
password_file = "{password}"
[keys]
ops_keys = ["{OPS.public}"]
signing_key_file = "{key}"
""")
    path = folder / "export.json"
    with path.open("w") as out:
        words = ["ledger", "export", "--config", str(config), "--format", "bundle"]
        subprocess.run([sys.executable, "-m", "hushmq", *words], stdout=out, check=True)
    return path


def run(*words: object, module: str = "hushmq") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )


def test_a_true_export_passes(export: Path, tmp_path: Path) -> None:
    """Exit code 0 with the trusted keys, as text or in a file; the same from the checker alone."""
    key = tmp_path / "ops.pub"
    key.write_text(f"{OPS.public}\n")
    keys = ("--ops-key", key, "--calibrator-key", str(CALIBRATOR.public))
    done = run("verify", export, *keys)
    assert (done.returncode, done.stderr) == (0, "")
    assert "all 17 claims hold" in done.stdout
    assert "on trust" not in done.stdout
    assert "\x1b[" not in done.stdout
    alone = run(export, *keys, module="hushmq.verify")
    assert (alone.returncode, alone.stdout) == (0, done.stdout)


def test_keys_on_trust_are_named(export: Path) -> None:
    done = run("verify", export)
    assert done.returncode == 0
    assert "the key of ops was taken on trust from the export" in done.stdout
    told = json.loads(run("verify", export, "--json", "--ops-key", str(OPS.public)).stdout)
    assert (told["holds"], told["keys_on_trust"]) == (True, ["calibrator"])
    public = next(one for one in told["claims"] if one["about"] == "motion: public")
    assert public["low"] <= public["stated"] <= public["budget"]
    assert public["high"] <= public["stated"] * (1 + 1e-8)


def test_a_strangers_export_needs_the_trusted_keys(export: Path, tmp_path: Path) -> None:
    """Somebody else's keys all over: it passes on trust only."""
    tree = json.loads(export.read_text())
    tree["keys"]["calibrator"] = str(STRANGER.public)
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(sealed_again(tree, STRANGER)))
    done = run("verify", path, "--ops-key", str(OPS.public), "--calibrator-key", str(CALIBRATOR.public))
    assert done.returncode == 1
    assert "it is not what a trusted key of the calibrator sealed" in done.stdout


def test_a_false_claim_is_exit_code_1(export: Path, tmp_path: Path) -> None:
    tree = json.loads(export.read_text())
    tree["streams"]["motion"]["state"]["public"]["loss"] *= 0.9
    path = tmp_path / "lie.json"
    path.write_text(json.dumps(sealed_again(tree)))
    done = run("verify", path, "--calibrator-key", str(CALIBRATOR.public))
    assert done.returncode == 1
    assert "FAILS        motion: public" in done.stdout
    assert "2 of 17 claims do not hold" in done.stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ("[]", "it is no export of format 1"),
        ('{"export": 2}', "it is no export of format 1"),
        ('{"export": 1}', "it lacks 'policies'"),
        ('{"export": 1, "policies": [], "settings": [], "streams": {"x": {}}}', "it cannot be checked"),
        ('{"export": 1, "policies": NaN}', "NaN is no number"),
    ],
)
def test_what_cannot_be_read_is_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    path = tmp_path / "export.json"
    path.write_text(text)
    assert main(["verify", str(path)]) == 2
    told = capsys.readouterr()
    assert (told.out, reason in told.err) == ("", True)


def test_bad_arguments(export: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path / "nowhere.json")]) == 2
    assert "nowhere.json" in capsys.readouterr().err
    assert main(["verify", str(export), "--ops-key", "no key"]) == 2
    assert "neither a public key in base64 nor a file with one" in capsys.readouterr().err
    for words in (["--database", "sqlite:///x"], ["--config", "x", "--stream", "motion"]):
        assert main(["ledger", "export", "--format", "bundle", *words]) == 2
        assert "a bundle" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("policy", Policy),
        ("stream policy", StreamPolicy),
        ("setting", NoiseSetting),
        ("release", Release),
        ("state", LedgerState),
        ("account", Account),
    ],
)
def test_every_field_of_the_contract_is_known(kind: str, model: type[Message]) -> None:
    """Whoever adds a field must decide what the checker makes of it: until then it fails, as this does."""
    assert model.model_fields.keys() == KNOWN[kind]


def test_every_column_of_the_ledger_is_known() -> None:
    assert {column.name for column in ledger.columns} == KNOWN["entry"]
    assert {column.name for column in epoch.columns} == KNOWN["epoch"]
