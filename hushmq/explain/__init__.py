"""`hushmq explain`: figures of losses, timelines and noise scales."""

from __future__ import annotations

from hushmq.explain.explain_command import configure, run

__all__ = ["configure", "run"]
