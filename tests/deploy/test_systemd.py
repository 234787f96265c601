"""systemd accepts the units in deploy/systemd."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.command import parse

UNITS = sorted((Path(__file__).parents[2] / "deploy" / "systemd").glob("*.service"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path) -> None:
    """`systemd-analyze verify` accepts the unit once the executable and the user exist."""
    text = (
        unit.read_text().replace("/opt/hushmq/bin/hushmq", sys.executable).replace("User=hushmq", "User=root")
    )
    copy = tmp_path / unit.name
    copy.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert not complaints


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_exposes_little(unit: Path) -> None:
    """systemd's own measure of what a service could reach is below 3 of 10, where 7 is what a unit has without care."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=30", unit],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_the_command_is_one(unit: Path) -> None:
    """A unit starts an existing command of hushmq with valid options."""
    (line,) = (line for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
    executable, *words = shlex.split(line.removeprefix("ExecStart="))
    assert executable == "/opt/hushmq/bin/hushmq"
    parse(words)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_no_core_file(unit: Path) -> None:
    """A core file would hold raw states: every unit forbids it."""
    assert "LimitCORE=0" in unit.read_text()
