"""`hushmq demo`: the whole loop on one machine, with real processes, a real broker and a verdict."""

from __future__ import annotations

from hushmq.demo.demo_command import configure, run

__all__ = ["configure", "run"]
