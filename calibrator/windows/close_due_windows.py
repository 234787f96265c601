"""Close every due window of a cohort, one transaction each, and add up what devices released themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
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
from hushmq.calibrator.policy.follow_policy import FollowedPolicy
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.roster.left_out import OUTSIDE
from hushmq.calibrator.windows.close_window import WindowOutcome, close_window
from hushmq.calibrator.windows.closed_windows import delete_closed_states
from hushmq.calibrator.windows.collect_device_windows import Aggregated, aggregate_due
from hushmq.calibrator.windows.due_windows import MOST_AT_ONCE, WindowSchedule, due_windows


@dataclass(frozen=True, slots=True)
class ClosedWindows:
    """What closing the due windows of a cohort did."""

    windows: tuple[WindowOutcome, ...] = ()
    aggregates: tuple[Aggregated, ...] = ()

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
    schedule: WindowSchedule = field(default_factory=WindowSchedule)
    filled: Counter[str] = field(default_factory=Counter)
    """Ticks filled since the start, by stream."""
    released: int = 0
    """Windows released since the start."""
    refused: int = 0
    """Windows refused since the start."""

    def close_due(self, engine: Engine, *, waiting: Collection[str] = ()) -> ClosedWindows:
        """Close every window whose grace has passed, but those of the streams that are `waiting`.

        Each has its debit in a transaction of its own. The high-water mark is written after the debits are durable and
        before anything of them is published.
        """
        windows: list[WindowOutcome] = []
        aggregates: list[Aggregated] = []
        for name, stream in self.followed.streams.items():
            through = self.clocks.tick(stream, -self.grace_s) - 1
            if name in self.marks.stopped or name in waiting:
                continue
            if not self.schedule.can_be_due(name, through=through):
                continue
            with engine.begin() as db:
                spans = due_windows(db, name, stream, through=through)
                added = aggregate_due(db, name, stream, through=through, topics=self.topics)
            self._log_aggregates(name, added)
            closed = self._close(engine, name, spans)
            if len(closed) == len(spans) < MOST_AT_ONCE:
                self.schedule.searched(name, stream, through=through)
            aggregates += added
            windows += closed
        if any(one.charge for one in windows):
            with engine.begin() as db:
                self.marks.write(db)
        return ClosedWindows(tuple(windows), tuple(aggregates))

    def _close(self, engine: Engine, stream: str, spans: Iterable[Span]) -> list[WindowOutcome]:
        """Close windows in order; where devices have device-specific settings, only up to the next new Θ or epoch.

        New settings come before the remaining windows, since what a window may spend depends on them.
        """
        closed = []
        for span in spans:
            begun: list[BegunEpoch] = []
            with engine.begin() as db:
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
            closed.append(one)
            if one.theta_updated and accounts.exposures:
                break
        if closed:
            with engine.begin() as db:
                delete_closed_states(db, stream, self.followed.streams[stream])
        return closed

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
