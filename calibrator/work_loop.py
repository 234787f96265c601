"""What every loop of ours is asked by signals: to stop, or to end with settings that were read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem

C = TypeVar("C")


class WorkLoop(Generic[C]):
    """Base of a loop with settings `C`. `stop` and `ask_reload` may be called from a signal handler."""

    def __init__(self, *, reload: Callable[[], C] | None, log: FilteringBoundLogger) -> None:
        self._load, self._log = reload, log
        self._stopping = self._reload_asked = False
        self._successor: C | None = None
        """The settings to go on with, after a reload."""

    def stop(self) -> None:
        """End the loop."""
        self._stopping = True

    def ask_reload(self) -> None:
        """Read the settings again and end the loop with them; if they are wrong, say so and go on as before."""
        self._reload_asked = True

    def _reload_if_asked(self) -> None:
        """To be called at every turn."""
        if not self._reload_asked or self._load is None:
            return
        self._reload_asked = False
        try:
            self._successor = self._load()
        except Problem as problem:
            self._log.warning("settings_refused", problem=str(problem))
        else:
            self._stopping = True
