"""The windows of a cohort: which are due, closing them one by one, and what of them waits to be published.

Each window is closed with its debit in a transaction of its own (calibrator/windows/close_window.py). What devices
released themselves is added up beside it (calibrator/windows/collect_device_windows.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import StreamPolicy
from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.learning.learn_window import progress
from hushmq.calibrator.ledger.accounts import Bookkeeper
from hushmq.calibrator.ledger.high_water_mark import Marks
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.policy.follow_policy import Followed
from hushmq.calibrator.windows import close_window as release
from hushmq.calibrator.windows import collect_device_windows as collect


@dataclass(frozen=True, slots=True)
class _Look:
    """A look for due windows: under which policy, how many of each were over, and the last tick of any that was."""

    policy: StreamPolicy
    over: tuple[int, ...]
    complete: int


@dataclass(slots=True)
class Windows:
    """Closes windows; remembers what it has looked at, so that an idle turn asks the database nothing."""

    topics: Topics
    followed: Followed
    bookkeeper: Bookkeeper
    marks: Marks
    clocks: Clocks
    grace_s: float
    log: FilteringBoundLogger
    released: int = 0
    refused: int = 0
    added: int = 0
    _looked: dict[str, _Look] = field(default_factory=dict)

    def look_again(self, stream: str, first: int = 0) -> None:
        """Something has come from this tick on: it may lie in a window that was empty at the last look."""
        look = self._looked.get(stream)
        if look is not None and first <= look.complete:
            del self._looked[stream]

    def close_due(self, engine: Engine, besides: Collection[str] = ()) -> list[release.Closed]:
        """Close every window whose grace has passed, besides those of some streams.

        Each has its debit in a transaction of its own. A look may end it for the stream: own settings come before the
        rest, since what a window may spend depends on them.

        The mark is written after the debits are durable and before anything of them is offered for publishing.
        """
        closed = []
        for name, stream in self.followed.streams.items():
            through = self.clocks.tick(stream, -self.grace_s) - 1
            look = _look(stream, through)
            if name in self.marks.stopped or name in besides or self._looked.get(name) == look:
                continue
            spans = self._due(engine, name, stream, through)
            ended = self._close(engine, name, stream, spans)
            closed += ended
            if len(ended) == len(spans):
                self._looked[name] = look
        if any(one.entry is not None for one in closed):
            with engine.begin() as db:
                self.marks.write(db)
        return closed

    def _due(self, engine: Engine, name: str, stream: StreamPolicy, through: int) -> list[release.Span]:
        """The windows to close; what devices released of theirs is added up."""
        with engine.begin() as db:
            spans = release.due(db, name, stream, through=through)
            sums = collect.add_due(db, name, stream, through=through, topics=self.topics)
        for one in sums:
            self.log.info("added_up", stream=name, window=one.window, first=one.first, devices=one.devices)
        self.added += len(sums)
        return spans

    def _close(
        self, engine: Engine, name: str, stream: StreamPolicy, spans: Iterable[release.Span]
    ) -> list[release.Closed]:
        """Close windows, where devices have settings of their own only up to the next look."""
        closed = []
        for span in spans:
            with engine.begin() as db:
                before = progress(db, name).at_look
                account = self.bookkeeper.account(db, name, stream)
                others = self.bookkeeper.holders(db, name, stream, account.theta)
                ended = release.close(db, span, stream, account=account, topics=self.topics, others=others)
                looked = progress(db, name).at_look != before
            self._tell(ended)
            closed.append(ended)
            if looked and others:
                break
        if closed:
            with engine.begin() as db:
                release.prune(db, name, stream)
        return closed

    def _tell(self, one: release.Closed) -> None:
        where = {
            "stream": one.span.stream,
            "window": one.span.window,
            "scope": one.span.scope,
            "first": one.span.first,
            "last": one.span.last,
        }
        if one.refused:
            self.refused += 1
            self.log.error("release_refused", **where, why=one.refused)
        elif one.entry is not None:
            self.released += 1
            self.log.info("released", **where, entry=one.entry, loss=one.loss)


def _look(stream: StreamPolicy, through: int) -> _Look:
    ticks = [window.ticks for window in stream.windows.values()]
    ticks += [window.ticks for window in stream.device_windows.values()]
    over = tuple((through + 1) // length for length in ticks)
    complete = max((n * length - 1 for n, length in zip(over, ticks, strict=True)), default=-1)
    return _Look(stream, over, complete)


def unsent(db: Connection) -> list[tuple[int, str, bytes]]:
    """What waits to be published: a ledger entry or, below 0, the number of a sum that has none; topic; bytes."""
    sums = [(-number, topic, payload) for number, topic, payload in collect.unsent(db)]
    return release.unsent(db) + sums


def mark_sent(db: Connection, sent: Iterable[tuple[int, str]]) -> None:
    """Remember what the broker has acknowledged."""
    for entry, topic in sent:
        if entry < 0:
            collect.mark_sent(db, -entry)
        else:
            release.mark_sent(db, entry, topic)
