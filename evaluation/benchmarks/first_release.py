"""The time from a fresh clone to the first release of `make demo`, and the memory of an idle agent."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hushmq.broker.provision.nats import NatsServer
from hushmq.demo.demo_plan import BrokerAddress, make_plan, write_agent
from hushmq.evaluation.benchmarks.benchmark_row import Row

ROOT = Path(__file__).resolve().parents[2]


def run() -> Iterator[Row]:
    yield from _fresh_clone()
    yield from idle_agent()


def _fresh_clone() -> list[Row]:
    """Clones, runs `make demo` and waits for the line of the first release; pip's cache is not cleared."""
    with tempfile.TemporaryDirectory(prefix="hushmq-clone-") as folder:
        clone = Path(folder) / "hushmq"
        began = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        environment = {
            name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}
        }
        process = subprocess.Popen(
            ["make", "demo", "ARGS=--seconds 60 --until-closed"],
            cwd=clone,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        installed = first = None
        for line in process.stdout or ():
            if line.startswith("release 1:"):
                first = time.perf_counter() - began
                installed = (clone / ".venv" / "demo").stat().st_mtime - (time.time() - first)
        if process.wait() != 0 or first is None or installed is None:
            raise RuntimeError("make demo did not close its loop in the fresh clone")
    return [
        Row(
            "fresh clone to first release",
            first,
            "s",
            f"installing alone {installed:.1f} s",
            first / installed,
        )
    ]


def idle_agent() -> list[Row]:
    """Resident memory of an agent that is connected and waits for its first setting, beside a bare interpreter."""
    plan = make_plan(agents=1, epsilon=4.0, now=time.time())
    with (
        tempfile.TemporaryDirectory(prefix="hushmq-idle-") as folder,
        NatsServer(plan.site, Path(folder) / "nats") as server,
    ):
        config = write_agent(
            plan, plan.wearables[0], BrokerAddress(f"mqtt://{server.host}:{server.port}"), Path(folder)
        )
        agent = _resident(
            ["-P", "-m", "hushmq", "agent", "run", "--config", str(config)], ready="broker_connected"
        )
        bare = _resident(["-c", "import sys, time; print('up', file=sys.stderr); time.sleep(60)"], ready="up")
    return [
        Row(
            "resident memory of one idle agent",
            agent,
            "MB",
            f"bare interpreter {bare:.1f} MB",
            agent / bare,
            "≤ 48 MB",
        )
    ]


def _resident(arguments: list[str], *, ready: str, settle_s: float = 2.0) -> float:
    """Resident megabytes of a Python process, shortly after it has printed `ready`."""
    process = subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True)
    try:
        if not any(ready in line for line in process.stderr or ()):
            raise RuntimeError(f"a process ended before it said {ready!r}")
        time.sleep(settle_s)
        status = Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.kill()
        process.communicate()
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return int(kilobytes) / 1024
