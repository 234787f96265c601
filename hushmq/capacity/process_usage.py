"""Processor time and memory of processes, as Linux counts them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from hushmq.broker.contract.problem import Problem

PROC = Path("/proc")


def check_system() -> None:
    """Problem where processor times cannot be read."""
    if not (PROC / "self" / "stat").is_file():
        raise Problem("--measure: processor times are read from /proc, which only Linux has")


def processor_s(pids: Iterable[int]) -> float:
    """Seconds that processes have taken so far, without their children; one that is gone counts nothing."""
    tick = os.sysconf("SC_CLK_TCK")
    total = 0
    for pid in pids:
        try:
            after_name = (
                (PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
            )
        except OSError:
            continue
        words = after_name.split()
        total += int(words[11]) + int(words[12])
    return total / tick


def resident_bytes(pid: int) -> int:
    """The memory of a process."""
    pages = int((PROC / str(pid) / "statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor_name() -> str:
    """The model of the processor, as the kernel names it."""
    try:
        lines = (PROC / "cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, "an unknown processor")
