"""`hushmq explain`: what the numbers mean, drawn."""

from __future__ import annotations

from hushmq.explain.explain_command import configure, run

__all__ = ["configure", "run"]
