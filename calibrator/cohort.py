"""One cohort: receives what arrives, closes windows, calibrates settings, and says what is to be published.

The one owner of its database. Every transaction begins here, but those of windows, which are closed one by one
(calibrator/windows/close_due_windows.py).
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sqlalchemy import Connection, Engine
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import LedgerState, Seen, Status
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Reason
from hushmq.broker.contract.signature import PrivateKey, PublicKey
from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.calibrator_config import DevicesSection, RosterSection
from hushmq.calibrator.ingest.device_statuses import DeviceStatuses
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ingest.quarantine import Quarantine
from hushmq.calibrator.ingest.receive import Received, Receiver
from hushmq.calibrator.ingest.seen_ticks import seen_of
from hushmq.calibrator.ledger.accounts import Accounts
from hushmq.calibrator.ledger.high_water_mark import HighWaterMarks
from hushmq.calibrator.ledger.ledger_state import ledger_state
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.policy.failing_streams import FailingStreams
from hushmq.calibrator.policy.follow_policy import FollowedPolicy
from hushmq.calibrator.roster.admission import Admission
from hushmq.calibrator.roster.forgotten import forgotten_devices, topics_of
from hushmq.calibrator.roster.left_out import left_out
from hushmq.calibrator.settings.cohort_settings import CohortSettings, DeviceSettings
from hushmq.calibrator.settings.stored_settings import StoredSetting, sign_again
from hushmq.calibrator.store.tick_counts import counted_ticks
from hushmq.calibrator.windows import outgoing
from hushmq.calibrator.windows.close_due_windows import ClosedWindows, WindowCloser
from hushmq.calibrator.windows.outgoing import Outgoing


class Cohort:
    """Owns the database of one cohort."""

    def __init__(
        self,
        engine: Engine,
        *,
        cohort: str,
        key: PrivateKey,
        ops_keys: Iterable[PublicKey],
        grace_s: float,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
        devices: DevicesSection | None = None,
        roster: RosterSection | None = None,
        mark_path: Path | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        limits, ops_keys = devices or DevicesSection(), tuple(ops_keys)
        clocks = Clocks(clock, limits.skew_s)
        self.topics = Topics(cohort)
        self._engine = engine
        with engine.begin() as db:
            self._followed = FollowedPolicy(db, cohort=cohort, ops_keys=ops_keys, log=log)
            self._marks = HighWaterMarks(
                db, cohort=cohort, key=key, path=mark_path, log=log, ops_keys=ops_keys
            )
            self._quarantine = Quarantine(db, limits)
            if signed := sign_again(db, key):
                log.info("settings_signed_again", settings=signed, key=key.public.id)
        self._clocks = clocks
        self._statuses = DeviceStatuses(log)
        self._accounts = Accounts(self._followed)
        self._log = log
        self._unpriced = FailingStreams("its accounts cannot be priced", clocks, log, self._accounts.reset)
        self._settings = CohortSettings(cohort, key, self._followed, self._accounts, clocks, log, timer)
        self._windows = WindowCloser(
            self.topics,
            self._followed,
            self._accounts,
            self._marks,
            clocks,
            grace_s,
            log,
            roster or RosterSection(),
            timer,
        )
        self._receiver = Receiver(
            cohort=cohort,
            followed=self._followed,
            marks=self._marks,
            settings=self._settings,
            quarantine=self._quarantine,
            statuses=self._statuses,
            admission=Admission(roster or RosterSection(), clocks, log),
            clocks=clocks,
            log=log,
        )

    def receive(self, arrived: Iterable[Arrived]) -> Received:
        """Count batches and handle all other messages, in one transaction."""
        messages = self._receiver.sort(arrived)
        if not messages.batches and not messages.others:
            return Received()
        with self._engine.begin() as db:
            received = self._receiver.take(db, messages)
        if received.adopted is not None:
            self._windows.schedule.policy_changed()
        for stream, first in received.first_ticks.items():
            self._windows.schedule.arrived(stream, first)
        return received

    def close_due(self, most_s: float = math.inf) -> ClosedWindows:
        """Close every window whose grace has passed, each in a transaction of its own, for about `most_s` seconds.

        Streams whose device-specific settings are being calibrated wait: what a window may spend depends on them.
        """
        return self._windows.close_due(self._engine, waiting=self._settings.unfinished, most_s=most_s)

    def resume(self) -> bool:
        """Whether streams that were stopped go on, because what their ledgers had lost is charged."""
        if not self._marks.stopped:
            return False
        with self._engine.begin() as db:
            resumed = self._marks.resume(db)
        if resumed:
            self._windows.schedule.policy_changed()
        return bool(resumed)

    def calibrate(self, *, nobody_applied: bool = False) -> dict[str, StoredSetting]:
        """The setting in force for each stream, newly calibrated where one is due and that does not fail.

        With `nobody_applied` none is made for a policy that has none yet.
        """
        with self._engine.begin() as db:
            return self._settings.calibrate(db, nobody_applied=nobody_applied)

    def nobody_applied(self, *, settled: bool) -> bool:
        """Whether devices are known, or may be while not `settled`, and none has applied the policy followed."""
        if self._followed.policy is None or self._statuses.applied(self._followed.version):
            return False
        return not settled or bool(self._statuses.of)

    def calibrate_devices(self, for_s: float = math.inf) -> DeviceSettings:
        """The device-specific settings in force, newly calibrated ones among them.

        It takes about `for_s` seconds, in one transaction; `unfinished` says where some remain.
        """
        with self._engine.begin() as db:
            return self._settings.calibrate_devices(db, for_s)

    @property
    def calibrating(self) -> bool:
        """Whether device-specific settings remain to be calibrated."""
        return bool(self._settings.unfinished)

    @property
    def calibration_due(self) -> bool:
        """Whether a stream is to be calibrated again for which that failed."""
        return self._settings.failed.due_again or self._settings.failed_rounds.due_again

    def ledger_states(self) -> list[LedgerState]:
        """Both audiences' accounts of every stream, priced under the learned Θ; without those that cannot be priced."""
        states = []
        with self._engine.begin() as db:
            for stream in self._followed.streams:
                with self._unpriced.one(stream):
                    states.append(self._ledger_state(db, stream))
        for state in states:
            if state.stopped is not None and state.stream not in self._marks.stopped:
                self._log.error("over_budget", stream=state.stream, why=state.stopped)
        return states

    def _ledger_state(self, db: Connection, stream: str) -> LedgerState:
        accounts = self._accounts.open(db, stream)
        misfit = self._accounts.worst_misfit(db, stream, accounts.policy)
        return ledger_state(db, accounts, self._marks, misfit)

    def unsent(self) -> list[Outgoing]:
        """What is stored and not acknowledged by the broker."""
        with self._engine.begin() as db:
            return outgoing.unsent(db)

    def mark_sent(self, acknowledged: Iterable[Outgoing]) -> None:
        """Record what the broker has acknowledged."""
        with self._engine.begin() as db:
            outgoing.mark_sent(db, acknowledged)

    def seen(self, device: str) -> Seen:
        """What is durably counted of a device."""
        return self.seen_of([device])[device]

    def seen_of(self, devices: Iterable[str]) -> dict[str, Seen]:
        """What is durably counted of each of these devices."""
        with self._engine.begin() as db:
            return seen_of(db, devices)

    def devices(self) -> set[str]:
        """Every device of which something was counted."""
        with self._engine.begin() as db:
            return {device for device, _ in counted_ticks(db)}

    def topics_of_forgotten(self) -> dict[str, list[str]]:
        """By forgotten device, the retained topics that are about it, but its status."""
        windows = [
            (name, window)
            for name, stream in self._followed.streams.items()
            for window in (*stream.windows, *stream.device_windows)
        ]
        with self._engine.begin() as db:
            return {device: topics_of(db, device, self.topics, windows) for device in forgotten_devices(db)}

    @property
    def policy(self) -> Policy | None:
        """The policy followed."""
        return self._followed.policy

    @property
    def policy_payload(self) -> bytes | None:
        """The signed bytes of the policy followed; None where the broker's is to be left as it is."""
        return self._followed.payload

    def newest_releases(self) -> dict[str, bytes]:
        """The newest release of each topic that the broker has acknowledged."""
        with self._engine.begin() as db:
            return outgoing.newest_sent(db, self._followed.streams, self.topics)

    @property
    def stopped(self) -> dict[str, str]:
        """Streams whose ledger does not reach a high-water mark, and why: nothing of them is charged."""
        return self._marks.stopped

    @property
    def failed(self) -> dict[str, str]:
        """Streams that could not be priced, calibrated, or their windows closed, at the last attempt, and why."""
        settings = self._settings.failed_rounds.why | self._settings.failed.why
        return self._unpriced.why | settings | self._windows.failed.why

    @property
    def statuses(self) -> Mapping[str, Status]:
        """The last status of each device."""
        return self._statuses.of

    def quarantined(self) -> dict[str, Reason]:
        """The devices in quarantine and why."""
        return self._quarantine.members(self._clocks.now())

    @property
    def counted(self) -> int:
        """Ticks counted since the start."""
        return self._receiver.counted

    @property
    def rejected(self) -> Counter[Reason]:
        """Messages refused since the start, by reason."""
        return self._receiver.rejected

    def left_out(self) -> dict[str, tuple[str, ...]]:
        """The devices that no window counts any more, by stream."""
        with self._engine.begin() as db:
            return {stream: tuple(left_out(db, stream)) for stream in self._followed.streams}

    @property
    def filled(self) -> Mapping[str, int]:
        """Ticks that did not arrive and were filled since the start, by stream."""
        return self._windows.filled

    @property
    def released(self) -> int:
        """Windows released since the start."""
        return self._windows.released

    @property
    def refused(self) -> int:
        """Windows refused since the start."""
        return self._windows.refused
