"""Device, broker and calibrator as one state machine: crash, loss, duplication, reordering and rollback as rules.

The outbox and the cohort are the real ones, with their databases; the broker between them is a list of messages and
what it retains. After every rule a tick has one payload and counts once, what a device sampled is counted, buffered or
dropped, every release has its debit and a window one result, and both losses are within their budgets. A database that
comes back older stops, until ops sign what it lost. HUSHMQ_MODEL_RUNS raises the number of runs (`make model`).
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import func, select

from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.broker.contract.messages import Batch, Seen, decode, encode
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.reconciliation import Reconciliation
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.calibrator.calibrator_config import DevicesSection
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ledger.high_water_mark import read_marks
from hushmq.calibrator.ledger.lost_entries import lost_stretch
from hushmq.calibrator.ledger.reconcile_ledger import reconcile, unreached
from hushmq.calibrator.store import tables as store
from tests.calibrator.site import OPS, START, STREAM, TOPICS, Clock, Desk, batch, desk, policy, sqlite, states

RUNS = int(os.environ.get("HUSHMQ_MODEL_RUNS", "6"))
STEPS = 100
DEVICE = "d0"
POLICY = policy(windows={"short": Window(ticks=50)})
LIMITS = DevicesSection(burst=1_000_000, messages_per_s=10_000)
FAST = Path("/dev/shm")  # noqa: S108
"""Databases in memory where the system has room for them: what is synced is not the subject here."""


class Site(RuleBasedStateMachine):
    """One device, one broker, one calibrator."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="hushmq-model-", dir=FAST if FAST.is_dir() else None))
        self.clock, self.opened = Clock(START), ExitStack()
        self.here = self._calibrator()
        self.here.adopt(POLICY)
        self.outbox = self._outbox()
        self.wire: list[bytes] = []
        """Batches at the broker that the calibrator has not received."""
        self.retained: bytes | None = None
        self.kept: tuple[list[bytes], bytes | None] = ([], None)
        """The broker's store as it was some time ago."""
        self.payloads: dict[int, set[bytes]] = {}
        self.results: dict[tuple[str, str, int], bytes] = {}
        """What was ever released, by window."""
        self.covered = TickRuns()
        """The ticks that were ever counted or known to be gaps."""
        self.aged = False
        """Whether the device has ever lost what it had sampled."""
        self.restored = False
        """Whether the calibrator has ever lost what it had counted."""
        self.rng = random.Random(0)

    def _calibrator(self) -> Desk:
        return self.opened.enter_context(
            desk(sqlite(self.folder), clock=self.clock, devices=LIMITS, mark_path=self.folder / "mark.json")
        )

    def _outbox(self) -> Outbox:
        (self.folder / "device").mkdir(exist_ok=True)
        return Outbox(self.folder / "device", max_bytes=3_000, max_age_s=10**9)

    def teardown(self) -> None:
        self.outbox.close()
        self.opened.close()
        shutil.rmtree(self.folder)

    @rule(ticks=st.integers(1, 12), gap=st.sampled_from([0, 0, 0, 3]), sent=st.booleans())
    def sample(self, ticks: int, gap: int, sent: bool) -> None:
        """A beat: some ticks are perturbed and stored, and may reach the broker; after a gap some never are."""
        balance = self.outbox.balances.get(STREAM)
        used = START - 1 if balance is None else balance.watermark
        first = used + 1 + gap
        payload = batch(
            first, states(ticks, seed=self.rng.randrange(10**9)), after=None if balance is None else used
        )
        made = MadeBatch(STREAM, first, first + ticks - 1, payload)
        self.outbox.commit([made], periods={STREAM: 1000}, seen={}, now_ms=0)
        self.clock.tick = max(self.clock.tick, first + ticks)
        if sent:
            self.wire.append(payload)

    @rule()
    def send(self) -> None:
        """Everything that waits reaches the broker, whether it did before or not."""
        self.wire += [one.payload for one in self.outbox.page(0, 1000)]

    @rule(seed=st.integers(0, 2**16), lost=st.integers(0, 2), seen=st.sampled_from(["no", "said", "heard"]))
    @precondition(lambda self: self.wire)
    def deliver(self, seed: int, lost: int, seen: str) -> None:
        """Some messages reach the calibrator, in any order, one of them twice; some are lost by the broker."""
        taken, self.wire = self.wire[:8], self.wire[8:]
        random.Random(seed).shuffle(taken)
        arrived = [*taken[lost:], *taken[-1:]]
        self.here.cohort.receive([Arrived(TOPICS.batch(DEVICE, STREAM), one) for one in arrived])
        if seen != "no":
            self.retained = encode(self.here.cohort.seen(DEVICE))
        if seen == "heard":
            self.hear_seen()

    @rule()
    def hear_seen(self) -> None:
        """The device hears what the broker retains, however old it is."""
        streams = decode(Seen, self.retained).streams if self.retained else {}
        self.outbox.commit([], periods={}, seen=streams, now_ms=0)

    @rule()
    def broker_keeps(self) -> None:
        self.kept = list(self.wire), self.retained

    @rule()
    def broker_comes_back_older(self) -> None:
        self.wire, self.retained = list(self.kept[0]), self.kept[1]

    @rule()
    def device_crashes(self) -> None:
        """Killed between two commits: nothing is closed in order, and the file is read again."""
        self.outbox._db.close()
        self.outbox = self._outbox()

    @rule()
    def device_folder_is_kept(self) -> None:
        """An image of the device's folder is made, between two beats."""
        self.outbox.close()
        shutil.rmtree(self.folder / "image", ignore_errors=True)
        shutil.copytree(self.folder / "device", self.folder / "image")
        self.outbox = self._outbox()

    @rule()
    @precondition(lambda self: (self.folder / "image").exists() and self.retained is not None)
    def device_folder_comes_back_older(self) -> None:
        """The image is put back; it hears that more was counted than it has used, and gives up all that has begun.

        Where it does not hear so, nothing prevents it from using a tick again (docs/faults.md): not tried here.
        """
        counted = decode(Seen, self.retained or b"").streams.get(STREAM)
        image = Outbox(self.folder / "image", max_bytes=3_000, max_age_s=10**9)
        used = image.balances.get(STREAM)
        image.close()
        if counted is None or (used is not None and counted.highest <= used.watermark):
            return
        self.outbox.close()
        shutil.rmtree(self.folder / "device")
        shutil.copytree(self.folder / "image", self.folder / "device")
        self.outbox = self._outbox()
        self.outbox.give_up(STREAM, max(counted.highest, int(self.clock.tick)), 1000)
        self.aged = True

    @rule()
    def database_is_kept(self) -> None:
        """A backup of the calibrator's database, made while it stands still."""
        self.opened.close()
        shutil.copy(self.folder / "ledger.db", self.folder / "backup.db")
        self.opened = ExitStack()
        self.here = self._calibrator()

    @rule()
    @precondition(lambda self: (self.folder / "backup.db").exists())
    def database_comes_back_older(self) -> None:
        """The backup is put back; where it lacks entries, ops sign what was lost, and the stream goes on."""
        self.opened.close()
        for name in ("ledger.db-wal", "ledger.db-shm"):
            (self.folder / name).unlink(missing_ok=True)
        shutil.copy(self.folder / "backup.db", self.folder / "ledger.db")
        self.opened = ExitStack()
        self.here = self._calibrator()
        self.restored = True
        self.close_windows()
        if self.here.cohort.stopped:
            self._reconcile()

    def _reconcile(self) -> None:
        now, mark = self.clock(), self.folder / "mark.json"
        with self.here.engine.begin() as db:
            marks = unreached(db, read_marks(mark), [OPS.public])
            lost = {stream: lost_stretch(db, stream, one, now=now) for stream, one in marks.items()}
            payload = encode(OPS.sign(Reconciliation(cohort="test", streams=lost)))
            reconcile(db, payload, cohort="test", policy=POLICY, marks=marks, ops_keys=[OPS.public], now=now)
        assert self.here.cohort.resume()
        self.here.cohort.calibrate()

    @rule()
    def calibrator_crashes(self) -> None:
        self.opened.close()
        self.opened = ExitStack()
        self.here = self._calibrator()

    @rule()
    def close_windows(self) -> None:
        self.clock.tick += 2
        self.here.cohort.close_due()
        (state,) = self.here.cohort.ledger_states()
        assert state.public.loss <= state.public.budget
        assert state.operator.loss <= state.operator.budget

    @invariant()
    def a_tick_is_one_payload(self) -> None:
        for payload in [*self.wire, *(one.payload for one in self.outbox.page(0, 1000))]:
            self.payloads.setdefault(decode(Batch, payload).first, set()).add(payload)
        assert all(len(payloads) == 1 for payloads in self.payloads.values())

    @invariant()
    def nothing_is_lost_or_counted_twice(self) -> None:
        balance = self.outbox.balances.get(STREAM)
        if balance is None:
            return
        with self.here.engine.connect() as db:
            counted = db.execute(select(func.sum(store.tally.c.counted))).scalar() or 0
            accounted = db.execute(select(store.accounted.c.first, store.accounted.c.last)).all()
        for first, last in accounted:
            self.covered.add(first, last)
        if not self.aged:
            assert counted <= balance.sampled
        forgotten = balance.sampled - balance.buffered - balance.dropped
        assert forgotten >= 0
        assert self.restored or forgotten <= counted
        waiting = TickRuns(balance.waiting)
        for first, payloads in self.payloads.items():
            (payload,) = payloads
            last = decode(Batch, payload).last
            held = not waiting.missing(first, last) or not self.covered.missing(first, last)
            assert held or balance.dropped or self.aged, (first, last)

    @invariant()
    def every_release_has_its_debit(self) -> None:
        with self.here.engine.connect() as db:
            debits = db.execute(select(store.ledger).where(store.ledger.c.window != "")).all()
            released = {row.entry: row.payload for row in db.execute(select(store.release))}
        assert released.keys() == {row.id for row in debits}
        for row in debits:
            result = released[row.id]
            assert self.results.setdefault((row.window, row.scope, row.first), result) == result
        assert self.here.cohort.rejected == {}
        assert self.here.cohort.stopped == {}


@pytest.mark.slow
def test_no_order_of_faults_breaks_a_promise() -> None:
    """Hypothesis searches for an order of rules after which an invariant does not hold."""
    run_state_machine_as_test(
        Site,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            derandomize=RUNS <= 10,
            suppress_health_check=list(HealthCheck),
        ),
    )
