"""Structured logging: one event per line on standard error, formatted for people on a terminal, as JSON elsewhere."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal, TextIO

import structlog

LEVELS = ("debug", "info", "warning", "error")


def logger(
    level: str = "info", form: Literal["auto", "console", "json"] = "auto", to: TextIO | None = None
) -> Any:
    """Return a new logger, without changing the process's logging. `auto`: console on a terminal, JSON elsewhere."""
    output = sys.stderr if to is None else to
    pretty = form == "console" or (form == "auto" and output.isatty())
    return structlog.wrap_logger(
        structlog.PrintLogger(output),
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer() if pretty else structlog.processors.JSONRenderer(),
        ],
    )
