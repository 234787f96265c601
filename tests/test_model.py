"""Device, broker and calibrator as one state machine: crash, loss, duplication, reordering and rollback as rules.

The outbox and the cohort are the real ones, with their databases; the broker between them is a list of messages and
what it retains. After every rule a tick has one payload and counts once, what a device sampled is counted, buffered or
dropped, and every release has its debit. HUSHMQ_MODEL_RUNS raises the number of runs.
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
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.calibrator.calibrator_config import DevicesSection
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store import tables as store
from tests.calibrator.site import START, STREAM, TOPICS, Clock, Desk, batch, desk, policy, sqlite, states

RUNS = int(os.environ.get("HUSHMQ_MODEL_RUNS", "10"))
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
        self.rng = random.Random(0)

    def _calibrator(self) -> Desk:
        return self.opened.enter_context(
            desk(sqlite(self.folder), clock=self.clock, devices=LIMITS, mark_path=self.folder / "mark.json")
        )

    def _outbox(self) -> Outbox:
        return Outbox(self.folder, max_bytes=3_000, max_age_s=10**9)

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
    def calibrator_crashes(self) -> None:
        self.opened.close()
        self.opened = ExitStack()
        self.here = self._calibrator()

    @rule()
    def close_windows(self) -> None:
        self.clock.tick += 2
        self.here.cohort.close_due()

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
        assert counted <= balance.sampled
        forgotten = balance.sampled - balance.buffered - balance.dropped
        assert 0 <= forgotten <= counted
        covered = TickRuns((first, last) for first, last in accounted)
        waiting = TickRuns(balance.waiting)
        for first, payloads in self.payloads.items():
            (payload,) = payloads
            last = decode(Batch, payload).last
            held = not waiting.missing(first, last) or not covered.missing(first, last)
            assert held or balance.dropped, (first, last)

    @invariant()
    def every_release_has_its_debit(self) -> None:
        with self.here.engine.connect() as db:
            debits = db.execute(select(func.count()).select_from(store.ledger)).scalar_one()
            released = db.execute(select(func.count()).select_from(store.release)).scalar_one()
        assert released == debits
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
