"""The demo's processes: ours wherever they are started, started again when they die, told when they cannot live."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import spawn
from hushmq.demo.demo_processes import MOST_STARTS, Player, Stage

PATIENCE = 60.0


def ended(player: Player) -> str:
    """What a player has said by its end."""
    assert player.process is not None
    player.process.wait(PATIENCE)
    return player.log.read_text()


def test_the_folder_it_is_started_in_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither folders called like our packages nor a program of our name are taken for ours."""
    for name in ("agent/settings", "broker/messages", "hushmq"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "hushmq" / "__main__.py").write_text("print('somebody else')")
    monkeypatch.chdir(tmp_path)
    player = Stage().add("one", ["agent", "check-config", "--config", "none.toml"], tmp_path / "log")
    assert "none.toml: No such file or directory" in ended(player)


def test_the_dead_are_started_again_and_given_up_in_the_end(tmp_path: Path) -> None:
    """Whoever ends is started again, a few times; then one line has its last words."""
    stage = Stage()
    player = stage.add("one", ["nonsense"], tmp_path / "log")
    for _ in range(MOST_STARTS - 1):
        ended(player)
        assert stage.look_after() == ["one"]
    ended(player)
    with pytest.raises(Problem, match="one keeps ending: hushmq: unknown command 'nonsense'"):
        stage.look_after()


def _deaf(folder: Path) -> subprocess.Popen[bytes]:
    """A process that has said it is up, and that SIGTERM does not impress."""
    program = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    with (folder / "deaf").open("wb") as log:
        process = spawn([sys.executable, "-c", program], log=log)
    deadline = time.monotonic() + PATIENCE
    while not (folder / "deaf").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def test_who_does_not_stop_is_killed(tmp_path: Path) -> None:
    """Everybody is asked at once, and nobody is waited for beyond patience."""
    stage = Stage()
    stuck = stage.add("stuck", ["--version"], tmp_path / "log")
    ended(stuck)
    stuck.process = _deaf(tmp_path)
    began = time.monotonic()
    stage.stop(patience=0.2)
    assert time.monotonic() - began < 10.0
    assert stuck.process.poll() == -9
    assert stage.players == []
