"""`hushmq audit`: try to refute a claimed loss by sampling the noise itself. `command` is the way in."""

from __future__ import annotations

from hushmq.audit.audit_command import configure, run

__all__ = ["configure", "run"]
