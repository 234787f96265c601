"""A window is charged and drawn in one transaction; what is stored is what is published, once and for ever."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.policy_message import Window
from hushmq.calibrator.learning import update_schedule
from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE
from hushmq.calibrator.ledger.audience_timelines import price_public
from hushmq.calibrator.ledger.debits import Debit, public_debits
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.ledger.window_spending import spending
from hushmq.calibrator.models import binary_model
from hushmq.calibrator.models.binary import binary_count
from hushmq.calibrator.models.draw_noise import noisy, noisy_together
from hushmq.calibrator.policy import failing_streams
from hushmq.calibrator.policy.nano_nats import NANO, scale_for
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.windows import draw_release
from hushmq.calibrator.windows.close_window import close_window
from hushmq.calibrator.windows.closed_windows import next_open_tick
from hushmq.calibrator.windows.outgoing import unsent
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.inference.nearest_distribution import nearest_distribution
from hushmq.pufferfish.window_method import METHODS, Method
from tests.calibrator.site import (
    START,
    STREAM,
    TOPICS,
    WIDE,
    Desk,
    desk,
    from_device,
    policy,
    sqlite,
    stream_policy,
)


def rows(here: Desk, table: str) -> int:
    with here.engine.begin() as db:
        return int(db.execute(select(func.count()).select_from(store.metadata.tables[table])).scalar_one())


def test_debit_and_noisy_result_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If anything fails after the debit, neither the debit nor the result nor the closing stays."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("after the debit")

    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        with monkeypatch.context() as patch:
            patch.setattr(draw_release, "encode", fail)
            patch.setattr(failing_streams, "FAILED_S", 0.0)
            assert here.cohort.close_due().windows == ()
        assert here.cohort.failed == {STREAM: "its windows cannot be closed: RuntimeError"}
        assert [rows(here, name) for name in ("ledger", "release", "pending", "filled")] == [0, 0, 0, 0]
        with here.engine.begin() as db:
            assert next_open_tick(db, STREAM, "short", "cohort") == START
        (one,) = here.cohort.close_due().windows
        assert one.charge is not None
        assert here.cohort.failed == {}
        assert [rows(here, name) for name in ("ledger", "release", "closed")] == [1, 1, 1]
        assert [rows(here, name) for name in ("pending", "statistic")] == [3, 0]


def test_nothing_is_offered_for_publishing_before_the_commit(tmp_path: Path) -> None:
    """Inside the transaction that charges, another connection sees no release to publish."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        span = Span(STREAM, "short", START, START + 19)
        with here.engine.connect() as db:
            transaction = db.begin()
            close_window(db, span, read_accounts(db, STREAM, stream_policy(), theta=WIDE), TOPICS)
            assert len(unsent(db)) == 1
            transaction.rollback()
        assert here.cohort.unsent() == []


def test_the_same_bytes_until_they_are_sent(tmp_path: Path) -> None:
    """A release is offered with identical bytes, also after a restart, until it is marked as sent."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        first = here.cohort.unsent()
        assert here.cohort.unsent() == first
    with desk(sqlite(tmp_path), clock=here.clock) as again:
        again.cohort.close_due()
        assert again.cohort.unsent() == first
        again.cohort.mark_sent(first[:1])
        assert again.cohort.unsent() == []


def test_a_cohort_with_many_due_windows_lets_others_have_their_turn(tmp_path: Path) -> None:
    """When its time is over, windows that remain are left for the next time, and all are closed in the end."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        for number in range(3):
            here.window(number)
        found = [here.cohort.close_due(most_s=0.0) for _ in range(4)]
        assert [(len(one.windows), one.unfinished) for one in found] == [
            *((1, True), (1, True), (1, False)),
            (0, False),
        ]
        assert rows(here, "ledger") == 3


def test_a_window_is_closed_once(tmp_path: Path) -> None:
    """Closing again, with more data or without, charges nothing more."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        assert len(here.cohort.close_due().windows) == 1
        here.cohort.receive([from_device("late", START, [1, 1, 1])])
        assert here.cohort.close_due().windows == ()
        assert rows(here, "ledger") == 1


def test_late_ticks_are_counted_and_never_released_again(tmp_path: Path) -> None:
    """Data for a closed window is counted, seen and reported as late."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        here.cohort.receive([from_device("d9", START + 15, [1] * 10)])
        with here.engine.begin() as db:
            tally = db.execute(select(store.tally).where(store.tally.c.device == "d9")).one()
        assert (tally.counted, tally.late) == (10, 5)
        assert here.seen("d9").streams[STREAM].highest == START + 24


def test_a_window_waits_for_its_grace(tmp_path: Path) -> None:
    """Until its last tick plus the grace has passed, a window takes late batches and is not charged."""
    with desk(sqlite(tmp_path), grace_s=5.0) as here:
        here.adopt()
        here.window()
        here.clock.tick = START + 24.9
        assert here.cohort.close_due().windows == ()
        here.clock.tick = START + 25
        assert len(here.cohort.close_due().windows) == 1


def test_a_window_over_budget_is_refused_and_charged_nothing(tmp_path: Path) -> None:
    """When the ledger holds too much already, the window is refused with the reason, no debit, no result."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        here.adopt(policy(2, windows={"short": Window(ticks=20), "other": Window(ticks=20)}))
        here.window(1)
        assert {one.span.window: one.refusal is None for one in here.cohort.close_due().windows} == {
            "short": True,
            "other": True,
        }
        smaller = {"operator": 4.0, "public": 0.05}
        here.adopt(policy(3, epsilon=stream_policy().epsilon.model_copy(update=smaller)))
        here.window(2, noise=3)
        before = rows(here, "ledger")
        (one,) = here.cohort.close_due().windows
        assert one.refusal is not None
        assert "0.05" in one.refusal.reason
        assert one.charge is None
        assert rows(here, "ledger") == before
        assert "release_refused" in here.log.getvalue()


def test_a_window_that_fits_with_a_quarter_less_is_released_with_more_noise(tmp_path: Path) -> None:
    """What changed within a window may leave less than its share: it spends three quarters then, and stays within ε."""
    both = {"short": Window(ticks=20), "long": Window(ticks=40)}
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=both))
        here.window(0)
        here.cohort.close_due()
        less = stream_policy().epsilon.model_copy(update={"public": 0.95})
        stream = stream_policy(windows=both, epsilon=less)
        here.adopt(policy(2, windows=both, epsilon=less))
        here.window(1)
        ends = {one.span.window: one for one in here.cohort.close_due().windows}
        assert ends["long"].charge is not None
        assert ends["long"].charge.loss <= 0.95
        whole = spending(stream, "long", theta=WIDE, noises=[one.noise for one in _debits(here)[:1]])
        (long,) = [one for one in _debits(here) if one.last - one.first == 39]
        assert long.tilt == whole.lessened().tilt
        assert 0.74 * whole.tilt < whole.lessened().tilt <= 0.75 * whole.tilt


def _debits(here: Desk) -> list[Debit]:
    with here.engine.begin() as db:
        return public_debits(db, STREAM)


@pytest.mark.slow
def test_the_ledger_keeps_within_the_budget_for_long(tmp_path: Path) -> None:
    """Window after window, the price of the whole history stays within ε, and nothing is refused."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        for number in range(6):
            here.window(number)
            (one,) = here.cohort.close_due().windows
            assert one.refusal is None
            assert one.charge.loss <= 1.0
        (account,) = here.cohort.ledger_states()
        assert account.public.loss <= account.public.budget
        assert account.entries == 6


def test_the_message_says_what_was_charged(tmp_path: Path) -> None:
    """Tilt, entry, loss and budget in the message are those of the ledger."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window(devices=4)
        (one,) = here.cohort.close_due().windows
        (outgoing,) = here.cohort.unsent()
        message = decode(Release, outgoing.payload)
        with here.engine.begin() as db:
            (debit,) = public_debits(db, STREAM)
        assert (message.entry, message.tilt, message.loss) == (outgoing.entry, debit.tilt, one.charge.loss)
        assert outgoing.topic == TOPICS.release(STREAM, "short", "cohort")
        assert (message.devices, message.ticks, sum(message.counts)) == (4, 80, 80)
        assert (message.first, message.last) == (START, START + 19)
        assert sum(message.frequencies) == pytest.approx(1.0)


@pytest.mark.slow
def test_the_noise_drawn_is_the_noise_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw costs its share of the tilt, the histogram's and each device's statistics'; no draw more."""
    histograms: list[tuple[int, float]] = []
    statistics: list[tuple[Sequence[int], int]] = []

    def watch(counts: Sequence[int], *, scale: float) -> list[int]:
        histograms.append((len(counts), scale))
        return noisy(counts, scale=scale)

    def watch_together(counts: Sequence[int], *, reach: Sequence[int], tilt: int) -> list[int]:
        statistics.append((reach, tilt))
        return noisy_together(counts, reach=reach, tilt=tilt)

    monkeypatch.setattr(binary_count, "noisy", watch)
    monkeypatch.setattr(binary_model, "noisy_together", watch_together)
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        for number in range(FIRST_UPDATE):
            assert statistics == []
            here.window(number, devices=3)
            here.cohort.close_due()
        messages = [decode(Release, one.payload) for one in here.cohort.unsent()]
    assert histograms == [(1, message.scale) for message in messages]
    # once for all windows; one state moves `ones` by 1 and each lag of a band by 2; 20 ticks hold lags 1, 2–4 and 5–13
    ((reach, tilt),) = set(statistics)
    assert len(statistics) == 3
    assert reach == (1, 2, 6, 18)
    for message in messages:
        cost = 1 / message.scale + tilt / NANO
        assert message.tilt / NANO >= cost > 0.999 * message.tilt / NANO


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ((0.3, 0.7), (0.3, 0.7)),
        ((-0.2, 1.2), (0.0, 1.0)),
        ((1.4, -0.4), (1.0, 0.0)),
        ((0.5, 0.5, -0.3), (0.5, 0.5, 0.0)),
        ((0.6, 0.6, 0.3), (0.43333333, 0.43333333, 0.13333333)),
    ],
)
def test_nearest_distribution(given: tuple[float, ...], nearest: tuple[float, ...]) -> None:
    """Not negative, sums to one, and no other distribution is nearer."""
    found = nearest_distribution(given)
    assert found == pytest.approx(nearest)
    assert sum(found) == pytest.approx(1.0)
    distance = math.dist(given, found)
    steps = [k / 50 for k in range(51)]
    others = (
        [(a, 1 - a) for a in steps]
        if len(given) == 2
        else [(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1]
    )
    assert all(math.dist(given, other) >= distance - 1e-9 for other in others)


SCOPES = {"short": Window(ticks=20, scopes=("cohort", "device")), "long": Window(ticks=40)}


def test_each_device_and_the_cohort_have_their_own_histogram(tmp_path: Path) -> None:
    """One debit for all devices' own histograms, one for the cohort's; each on its own topic, with its own ticks."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=SCOPES))
        here.window(devices=3)
        closed = here.cohort.close_due().windows
        assert [(one.span.window, one.span.scope) for one in closed] == [
            ("short", "cohort"),
            ("short", "device"),
        ]
        messages = {
            decode(Release, one.payload).scope: decode(Release, one.payload) for one in here.cohort.unsent()
        }
        assert set(messages) == {"cohort", "d0", "d1", "d2"}
        assert messages["cohort"].ticks == 60
        assert all(messages[f"d{n}"].ticks == 20 and messages[f"d{n}"].devices == 1 for n in range(3))
        assert len({messages[f"d{n}"].entry for n in range(3)}) == 1


@pytest.mark.slow
def test_scopes_and_lengths_of_the_same_ticks_add_up(tmp_path: Path) -> None:
    """Two scopes and two lengths over the same ticks cost their sum, and together stay within ε, nearly all of it."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=SCOPES))
        losses = []
        for number in range(6):
            here.window(number)
            for one in here.cohort.close_due().windows:
                assert one.refusal is None
                losses.append(one.charge.loss)
        with here.engine.begin() as db:
            debits = public_debits(db, STREAM)
        assert len(debits) == 6 + 6 + 3
        at_one_tick = sum(debit.tilt for debit in debits if debit.first <= START + 5 <= debit.last)
        alone = sum(debit.tilt for debit in debits if debit.first == START and debit.last == START + 19)
        assert at_one_tick > alone
        assert 0.9 < max(loss for loss in losses if loss is not None) <= 1.0


def test_no_device_is_called_cohort(tmp_path: Path) -> None:
    """A device with the cohort's name would overwrite its releases: its batches are refused."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.receive([from_device("cohort", START, [1])])
        assert here.cohort.devices() == set()


def test_proper_frequencies_where_asked(tmp_path: Path) -> None:
    """With `proper`, frequencies are never negative and sum to one, whatever the noise does."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows={"short": Window(ticks=20, proper=True)}))
        for number in range(8):
            here.window(number, devices=1)
            here.cohort.close_due()
        for payload in [one.payload for one in here.cohort.unsent()]:
            message = decode(Release, payload)
            assert min(message.frequencies) >= 0
            assert sum(message.frequencies) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_whatever_the_method_the_ledger_prices_exactly(
    tmp_path: Path, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method decides the scale; the price is the timeline's, and only the exact method uses the budget up."""
    monkeypatch.setattr(update_schedule, "FIRST_UPDATE", 1000)  # nothing is learned, so that Θ stays as it is
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows={"short": Window(ticks=20, method=method)}))
        for number in range(30):
            here.window(number)
            (one,) = here.cohort.close_due().windows
        with here.engine.begin() as db:
            debits = public_debits(db, STREAM)
        assert one.charge.loss == pytest.approx(price_public(debits, WIDE, stream_policy()).epsilon, rel=1e-9)
        assert one.charge.loss <= 1.0
        assert (one.charge.loss > 0.99) == (method in {"least-noise", "tilted-quilt"})
        (message, *_) = [decode(Release, one.payload) for one in here.cohort.unsent()]
        spent = spending(
            stream_policy(windows={"short": Window(ticks=20, method=method)}),
            "short",
            theta=WIDE,
            noises=[debits[0].noise],
        )
        assert message.scale == scale_for(1, spent.release)


def test_a_method_that_holds_no_longer_releases_nothing(tmp_path: Path) -> None:
    """Where Θ has widened beyond what mqm-exact is certified for, the window is refused with the reason."""
    beyond = BinaryTheta(0.15, 0.7, 0.15, 0.7)
    with desk(sqlite(tmp_path)) as here:
        stream = stream_policy(windows={"short": Window(ticks=20, method="mqm-exact")})
        here.adopt(policy(windows=stream.windows))
        here.window()
        span = Span(STREAM, "short", START, START + 19)
        with here.engine.begin() as db:
            one = close_window(db, span, read_accounts(db, STREAM, stream, theta=beyond), TOPICS)
        assert one.charge is None
        assert "q + r" in one.refusal.reason
        assert rows(here, "ledger") == 0


def test_states_that_no_setting_can_explain_are_not_released(tmp_path: Path) -> None:
    """Where nothing was issued that a window's ticks can carry, its price is unknown: it is refused."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        with here.engine.begin() as db:
            db.execute(update(store.setting).values(issued=START + 1000))
        (one,) = here.cohort.close_due().windows
        assert one.charge is None
        assert "can carry" in one.refusal.reason


@pytest.mark.slow
def test_intervals_hold_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    """Of many device windows of known shares of ones, about 95% of the intervals hold the share that was sent."""
    held = []
    devices, ticks = 400, 20
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows={"short": Window(ticks=ticks, scopes=("device",))}))
        here.clock.tick = START + ticks + 1
        rng = random.Random(5)
        setting = here.cohort.calibrate()[STREAM].message
        noise = binary_noise_of(setting.noise)
        chances = [1 - noise.rho1] * 6 + [noise.rho0] * 14
        sent = [[int(rng.random() < p) for p in chances] for _ in range(devices)]
        here.cohort.receive([from_device(f"d{n}", START, one) for n, one in enumerate(sent)])
        here.cohort.close_due()
        for payload in [one.payload for one in here.cohort.unsent()]:
            message = decode(Release, payload)
            (_, (low, high)) = message.intervals
            held.append(low <= 0.3 <= high)
            assert low < message.frequencies[1] < high
    assert len(held) == devices
    assert 0.91 <= sum(held) / devices <= 0.99


def test_claimed_noise_does_not_cheapen_a_window(tmp_path: Path) -> None:
    """Batches that claim an older, noisier version are charged as if they carried the least noise ever issued."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        narrow = stream_policy().theta.model_copy(update={"start": stream_policy().theta.floor})
        here.adopt(policy(2, theta=narrow))
        here.window(noise=1)
        here.cohort.close_due()
        with here.engine.begin() as db:
            (debit,) = public_debits(db, STREAM)
            noises = issued_noises(db, STREAM)
        assert debit.noise == noises[2]
        assert noises[2].rho0 < noises[1].rho0
