"""Close every due window of a cohort, one transaction each, and add up what devices released themselves."""

from __future__ import annotations

import gc
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Engine
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.ledger.accounts import Accounts
from hushmq.calibrator.ledger.begun_epoch import BegunEpoch
from hushmq.calibrator.ledger.contradicted_epoch import end_contradicted_epoch
from hushmq.calibrator.ledger.high_water_mark import HighWaterMarks
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.policy.failing_streams import FailingStreams
from hushmq.calibrator.policy.follow_policy import FollowedPolicy
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.roster.left_out import OUTSIDE
from hushmq.calibrator.windows.close_window import WindowOutcome, close_window
from hushmq.calibrator.windows.closed_windows import delete_closed_states, delete_unused_states
from hushmq.calibrator.windows.collect_device_windows import Aggregated, aggregate_due
from hushmq.calibrator.windows.due_windows import MOST_AT_ONCE, WindowSchedule, due_windows

UNUSED_MS = 3_600_000
"""How long counted states are kept that no window needs: so long a device that sends other ones is recognised."""


@contextmanager
def _without_cycle_collection() -> Iterator[None]:
    """A window of thousands of devices makes many objects, none in a cycle; looking for cycles takes a third of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """What closing the due windows of a cohort did."""

    windows: tuple[WindowOutcome, ...] = ()
    aggregates: tuple[Aggregated, ...] = ()
    unfinished: bool = False
    """Whether more windows may be due that were left for the next time."""

    @property
    def stored(self) -> bool:
        """Whether there are new bytes to publish."""
        return bool(self.aggregates) or any(one.charge for one in self.windows)


@dataclass(slots=True)
class WindowCloser:
    """Closes windows when their grace has passed."""

    topics: Topics
    followed: FollowedPolicy
    accounts: Accounts
    marks: HighWaterMarks
    clocks: Clocks
    grace_s: float
    log: FilteringBoundLogger
    limits: RosterSection = field(default_factory=RosterSection)
    timer: Callable[[], float] = time.monotonic
    schedule: WindowSchedule = field(default_factory=WindowSchedule)
    filled: Counter[str] = field(default_factory=Counter)
    """Ticks filled since the start, by stream."""
    released: int = 0
    """Windows released since the start."""
    refused: int = 0
    """Windows refused since the start."""
    _unused: dict[str, int] = field(default_factory=dict)
    """By stream without windows, before which tick its states were deleted."""
    failed: FailingStreams = field(init=False)
    """Streams whose windows could not be closed at the last attempt.

    Nothing was charged or drawn as far as anyone can see: the window's transaction was rolled back.
    """

    def __post_init__(self) -> None:
        self.failed = FailingStreams(
            "its windows cannot be closed", self.clocks, self.log, self.accounts.reset
        )

    def close_due(
        self, engine: Engine, *, waiting: Collection[str] = (), most_s: float = math.inf
    ) -> ClosedWindows:
        """Close the windows whose grace has passed, but those of the streams that are `waiting`.

        Each has its debit in a transaction of its own. The high-water mark is written after the debits are durable and
        before anything of them is published. After `most_s` seconds a stream closes no more than one, and what remains
        is left for the next time.
        """
        windows: list[WindowOutcome] = []
        aggregates: list[Aggregated] = []
        unfinished, until = False, self.timer() + most_s
        # What becomes due while windows are closed waits: nothing that has arrived since is counted.
        through_ms = int((self.clocks.now() - self.grace_s) * 1000)
        for name, stream in self.followed.streams.items():
            through = through_ms // stream.stride_ms - 1
            if not stream.windows:
                self._delete_unused(engine, name, before=through - UNUSED_MS // stream.stride_ms)
            if name in self.marks.stopped or name in waiting:
                continue
            if not self.schedule.can_be_due(name, through=through):
                continue
            if self.failed.waits(name):
                continue
            with self.failed.one(name):
                with engine.begin() as db:
                    spans = due_windows(db, name, stream, through=through)
                    added = aggregate_due(db, name, stream, through=through, topics=self.topics)
                self._log_aggregates(name, added)
                aggregates += added
                if self._close(engine, name, spans, windows, until=until) and len(spans) < MOST_AT_ONCE:
                    self.schedule.searched(name, stream, through=through)
                else:
                    unfinished = True
        if any(one.charge for one in windows):
            with engine.begin() as db:
                self.marks.write(db)
        return ClosedWindows(tuple(windows), tuple(aggregates), unfinished)

    def _delete_unused(self, engine: Engine, stream: str, *, before: int) -> None:
        """Delete states of ticks before a given one that no window will count; not at every turn."""
        tenth = UNUSED_MS // self.followed.streams[stream].stride_ms // 10
        if before <= self._unused.get(stream, 0) + tenth:
            return
        with engine.begin() as db:
            delete_unused_states(db, stream, before=before)
        self._unused[stream] = before

    def _close(
        self,
        engine: Engine,
        stream: str,
        spans: Sequence[Span],
        windows: list[WindowOutcome],
        *,
        until: float,
    ) -> bool:
        """Close windows in order, at least one, and add them to `windows`; True if all were closed.

        Where devices have device-specific settings, only up to the next new Θ or epoch: new settings come before the
        remaining windows, since what a window may spend depends on them.
        """
        before = len(windows)
        for span in spans:
            begun: list[BegunEpoch] = []
            with _without_cycle_collection(), engine.begin() as db:
                accounts = self.accounts.open(db, stream)
                one = close_window(db, span, accounts, self.topics, self.limits)
                if one.theta_updated and self.followed.policy is not None:
                    begun = end_contradicted_epoch(
                        db, stream, self.followed.policy, before=accounts, first=span.last + 1
                    )
            if one.charge is not None:
                accounts.public.commit(one.charge.entry, one.charge.proposed)
            self._log_window(one)
            for epoch in begun:
                epoch.report(self.log)
            windows.append(one)
            if (one.theta_updated and accounts.exposures) or self.timer() >= until:
                break
        closed = len(windows) - before
        if closed:
            with engine.begin() as db:
                delete_closed_states(db, stream, self.followed.streams[stream])
        return closed == len(spans)

    def _log_window(self, one: WindowOutcome) -> None:
        span = one.span
        where = {
            "stream": span.stream,
            "window": span.window,
            "scope": span.scope,
            "first": span.first,
            "last": span.last,
        }
        if one.refusal is not None:
            self.refused += 1
            self.log.error("release_refused", **where, why=one.refusal.reason)
        elif one.charge is not None:
            self.released += 1
            self.filled[span.stream] += one.filled
            self.log.info(
                "released", **where, entry=one.charge.entry, loss=one.charge.loss, filled=one.filled
            )
        for device in one.left_out:
            self.log.error("left_out", stream=span.stream, device=device, since=span.last + 1, why=OUTSIDE)
        for device in one.silent:
            self.log.warning("silent", stream=span.stream, device=device, last=span.last)

    def _log_aggregates(self, stream: str, added: Iterable[Aggregated]) -> None:
        for one in added:
            self.log.info("added_up", stream=stream, window=one.window, first=one.first, devices=one.devices)
            for device in one.unusable:
                self.log.error(
                    "release_unusable", stream=stream, window=one.window, device=device, first=one.first
                )
