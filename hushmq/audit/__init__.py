"""`hushmq audit`: tries to refute a claimed loss by sampling the noise."""

from __future__ import annotations

from hushmq.audit.audit_command import configure, run

__all__ = ["configure", "run"]
