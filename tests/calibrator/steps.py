"""Steps at which a process under test kills itself with -9: what may leave something behind, one after another.

A statement that writes, the moments before and after a commit, and whatever else a test calls a step. Reads are none:
a process that dies between two reads leaves what it would leave at the next write, and trying both shows nothing more.
"""

from __future__ import annotations

import os
import signal

from sqlalchemy import Engine, event

_READS = ("SELECT", "PRAGMA", "SHOW")


class Steps:
    """Counts steps and dies at one of them."""

    def __init__(self, die_at: int | None) -> None:
        self._left = die_at

    def __call__(self, *_: object, **__: object) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def follow(self, engine: Engine) -> None:
        """Count every statement of an engine that writes, and every commit."""
        event.listen(engine, "before_cursor_execute", self._before_statement)
        event.listen(engine, "commit", self)

    def _before_statement(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        if not statement.lstrip().upper().startswith(_READS):
            self()
