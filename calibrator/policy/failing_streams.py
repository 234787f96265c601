"""Streams for which something fails that is theirs alone: said once, tried again in a while; the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy.exc import SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hushmq.calibrator.policy.clocks import Clocks

FAILED_S = 60.0
"""How long a stream waits before what failed is tried again."""


@dataclass(slots=True)
class FailingStreams:
    """The streams for which one kind of work failed at the last attempt; `what` says so in words."""

    what: str
    clocks: Clocks
    log: FilteringBoundLogger
    reset: Callable[[], None]
    """Called after a failure: what was computed so far may be half done."""
    why: dict[str, str] = field(default_factory=dict)
    """By stream what failed, and the class of the error."""
    _again: dict[str, float] = field(default_factory=dict)

    def waits(self, stream: str) -> bool:
        """Whether the work failed for this stream, and is not to be tried again yet."""
        return self.clocks.now() < self._again.get(stream, 0.0)

    @property
    def due_again(self) -> bool:
        """Whether the work is to be tried again for a stream."""
        return any(not self.waits(stream) for stream in self.why)

    @contextmanager
    def one(self, stream: str) -> Iterator[None]:
        """Do the work for one stream: an error ends it, and is raised only if it is the database's.

        An error's text may hold data: its class is shown.
        """
        try:
            yield
        except SQLAlchemyError:
            raise  # about the database, not about the stream
        except Exception as error:  # noqa: BLE001
            why = f"{self.what}: {type(error).__name__}"
            if self.why.get(stream) != why:
                self.log.error("stream_failed", stream=stream, why=why)  # noqa: TRY400
            self.why[stream], self._again[stream] = why, self.clocks.now() + FAILED_S
            self.reset()
        else:
            self.why.pop(stream, None)
            self._again.pop(stream, None)
