"""One cohort's state: what arrives goes in, what may be published comes out. The one owner of its database.

Every transaction begins here, but those of windows, which are closed one by one.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sqlalchemy import Engine
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import LedgerState, Policy, Seen, Status
from hushmq.broker.contract.problem import Reason
from hushmq.broker.contract.signature import PrivateKey, PublicKey
from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.calibrator_config import DevicesSection
from hushmq.calibrator.ingest import count_batches as ingest
from hushmq.calibrator.ingest.device_statuses import Statuses
from hushmq.calibrator.ingest.quarantine import Quarantine
from hushmq.calibrator.ingest.receive import Arrived, Receiver
from hushmq.calibrator.ledger.accounts import Bookkeeper
from hushmq.calibrator.ledger.high_water_mark import Marks
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.policy.follow_policy import Followed
from hushmq.calibrator.settings.calibrate import Current, sign_anew
from hushmq.calibrator.settings.cohort_settings import Settings
from hushmq.calibrator.windows import close_due_windows as windows
from hushmq.calibrator.windows.close_due_windows import Windows
from hushmq.calibrator.windows.close_window import Closed


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
        mark_path: Path | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = devices or DevicesSection()
        clocks = Clocks(clock, limits.skew_s)
        self.topics = Topics(cohort)
        self._engine = engine
        with engine.begin() as db:
            self._followed = Followed(db, cohort=cohort, ops_keys=ops_keys, log=log)
            self._marks = Marks(db, cohort=cohort, key=key, path=mark_path, log=log)
            self._quarantine = Quarantine(db, limits)
            if anew := sign_anew(db, key):
                log.info("settings_signed_anew", settings=anew, key=key.public.id)
        self._clocks = clocks
        self._statuses = Statuses(log)
        self._bookkeeper = Bookkeeper(self._marks, log)
        self._settings = Settings(cohort, key, self._followed, self._bookkeeper, clocks, log, timer)
        self._windows = Windows(
            self.topics, self._followed, self._bookkeeper, self._marks, clocks, grace_s, log
        )
        self._receiver = Receiver(
            cohort=cohort,
            followed=self._followed,
            marks=self._marks,
            settings=self._settings,
            windows=self._windows,
            quarantine=self._quarantine,
            statuses=self._statuses,
            clocks=clocks,
            log=log,
        )

    # -- what arrives --------------------------------------------------------------------------------------

    def take(self, arrived: Iterable[Arrived]) -> set[str]:
        """Count batches and adopt policies in one transaction; return the devices whose `seen` has changed."""
        news = self._receiver.sort(arrived)
        if not news.batches and not news.others:
            return set()
        with self._engine.begin() as db:
            return self._receiver.take(db, news)

    @property
    def counted(self) -> int:
        """Ticks counted since the start."""
        return self._receiver.counted

    @property
    def rejected(self) -> Counter[Reason]:
        """What was refused since the start, by reason."""
        return self._receiver.rejected

    @property
    def policy(self) -> Policy | None:
        """The policy followed."""
        return self._followed.policy

    # -- windows -------------------------------------------------------------------------------------------

    def close_due(self) -> list[Closed]:
        """Close every window whose grace has passed, each with its debit in a transaction of its own.

        Those of streams of which own settings are being made wait for them.
        """
        return self._windows.close_due(self._engine, besides=self._settings.making)

    @property
    def released(self) -> int:
        """Windows released since the start."""
        return self._windows.released

    @property
    def refused(self) -> int:
        """Windows refused since the start."""
        return self._windows.refused

    @property
    def added(self) -> int:
        """Windows of devices' own releases that were added up since the start."""
        return self._windows.added

    @property
    def stopped(self) -> dict[str, str]:
        """Streams whose ledger does not reach a high-water mark, and why: nothing of them is charged."""
        return self._marks.stopped

    def unsent(self) -> list[tuple[int, str, bytes]]:
        """What waits to be published: a ledger entry or, below 0, the number of a sum that has none; topic; bytes."""
        with self._engine.begin() as db:
            return windows.unsent(db)

    def mark_sent(self, sent: Iterable[tuple[int, str]]) -> None:
        """Remember what the broker has acknowledged."""
        with self._engine.begin() as db:
            windows.mark_sent(db, sent)

    # -- settings and accounts -----------------------------------------------------------------------------

    def settings(self) -> dict[str, Current]:
        """The setting in force for each stream, a new one where it is due."""
        with self._engine.begin() as db:
            return self._settings.in_force(db)

    def own_settings(self, for_s: float = math.inf) -> dict[str, dict[str, Current]]:
        """By stream and device, the settings of devices that have their own; new ones where they are due.

        For about so long, in one transaction: while `making`, there are more to come.
        """
        with self._engine.begin() as db:
            return self._settings.of_devices(db, for_s)

    @property
    def making(self) -> bool:
        """Whether own settings are being made and not all are."""
        return bool(self._settings.making)

    def accounts(self) -> list[LedgerState]:
        """Both audiences' accounts, priced under the Θ believed now."""
        with self._engine.begin() as db:
            return [self._bookkeeper.state(db, *one) for one in self._followed.streams.items()]

    # -- devices -------------------------------------------------------------------------------------------

    def seen(self, device: str) -> Seen:
        """What is durably counted of a device."""
        return self.seen_of([device])[device]

    def seen_of(self, devices: Iterable[str]) -> dict[str, Seen]:
        """What is durably counted of each of these devices."""
        with self._engine.begin() as db:
            return ingest.seen_of(db, devices)

    def devices(self) -> set[str]:
        """Every device of which something was counted."""
        with self._engine.begin() as db:
            return {device for device, _ in ingest.counted_ticks(db)}

    @property
    def statuses(self) -> Mapping[str, Status]:
        """The last status of each device."""
        return self._statuses.of

    def aside(self) -> dict[str, Reason]:
        """The devices in quarantine and why."""
        return self._quarantine.aside(self._clocks.now())
