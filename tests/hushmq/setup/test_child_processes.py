"""The demo's processes: independent of the current folder, restarted when they end, reported when they keep ending."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import spawn
from hushmq.setup.child_processes import MAX_STARTS, ChildProcess, ChildProcesses

PATIENCE = 60.0


def ended(process: ChildProcess) -> str:
    """What a player has said by its end."""
    assert process.process is not None
    process.process.wait(PATIENCE)
    return process.log.read_text()


def test_the_folder_it_is_started_in_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither folders called like our packages nor a program of our name are taken for ours."""
    for name in ("agent/settings", "broker/messages", "hushmq"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "hushmq" / "__main__.py").write_text("print('somebody else')")
    monkeypatch.chdir(tmp_path)
    process = ChildProcesses().add(
        "one", ["agent", "check-config", "--config", "none.toml"], tmp_path / "log"
    )
    assert "none.toml: No such file or directory" in ended(process)


@pytest.mark.slow
def test_the_dead_are_started_again_and_given_up_in_the_end(tmp_path: Path) -> None:
    """Whoever ends is started again, a few times; then one line has its last words."""
    processes = ChildProcesses()
    process = processes.add("one", ["nonsense"], tmp_path / "log")
    for _ in range(MAX_STARTS - 1):
        ended(process)
        assert processes.restart_ended() == ["one"]
    ended(process)
    with pytest.raises(Problem, match="one keeps ending: hushmq: unknown command 'nonsense'"):
        processes.restart_ended()


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
    """All processes are terminated at once, and killed after the timeout."""
    processes = ChildProcesses()
    stuck = processes.add("stuck", ["--version"], tmp_path / "log")
    ended(stuck)
    stuck.process = _deaf(tmp_path)
    began = time.monotonic()
    processes.stop(patience=0.2)
    assert time.monotonic() - began < 10.0
    assert stuck.process.poll() == -9
    assert processes.processes == []
