"""Log an unexpected exception without its text, which may hold a raw value."""

from __future__ import annotations

import traceback
from typing import Any


def log_failure(log: Any, error: BaseException | None) -> None:
    """Log the exception's class and where it was raised, without its text."""
    frames = traceback.extract_tb(error.__traceback__) if error else []
    log.error(
        "agent_failed",
        error=type(error).__name__,
        at=[f"{frame.filename}:{frame.lineno}" for frame in frames],
    )
