"""Clocks for tests."""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.agent.sources.tick import Clock

MS = 1_000_000


@dataclass
class Hands:
    """A wall clock and a monotonic clock, advanced by the test."""

    wall_ns: int = 1_000_000 * MS
    steady_ns: int = 0

    def clock(self) -> Clock:
        return Clock(wall=lambda: self.wall_ns, steady=lambda: self.steady_ns)

    def run(self, ms: int) -> None:
        self.wall_ns += ms * MS
        self.steady_ns += ms * MS
