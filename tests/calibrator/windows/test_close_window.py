"""A window is charged and drawn in one transaction; what is stored is what is published, once and for ever."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import func, select, update

from hushmq.broker.contract.messages import Release, Window, decode
from hushmq.broker.contract.noise_message import flips_of
from hushmq.calibrator.learning import learn_window as learn
from hushmq.calibrator.learning.learn_window import FIRST_LOOK
from hushmq.calibrator.ledger.audience_timelines import (
    NANO,
    Debit,
    issued_noises,
    price_public,
    public_debits,
    scale_for,
    spending,
)
from hushmq.calibrator.ledger.public_account import Account
from hushmq.calibrator.models import binary_model as learn_two
from hushmq.calibrator.models.binary import binary_count as count_two
from hushmq.calibrator.models.draw_noise import noisy, noisy_together
from hushmq.calibrator.models.histogram import nearest_distribution
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.windows import close_window as release
from hushmq.pufferfish.binary.stream_loss import Box
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
            patch.setattr(release, "encode", fail)
            with pytest.raises(RuntimeError):
                here.cohort.close_due()
        assert [rows(here, name) for name in ("ledger", "release", "pending", "closed")] == [0, 0, 0, 0]
        (one,) = here.cohort.close_due()
        assert one.entry is not None
        assert [rows(here, name) for name in ("ledger", "release", "closed")] == [1, 1, 1]
        assert [rows(here, name) for name in ("pending", "statistic")] == [3, 0]


def test_nothing_is_offered_for_publishing_before_the_commit(tmp_path: Path) -> None:
    """Inside the transaction that charges, another connection sees no release to publish."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        span = release.Span(STREAM, "short", START, START + 19)
        with here.engine.connect() as db:
            transaction = db.begin()
            release.close(db, span, stream_policy(), account=Account(WIDE, "prior"), topics=TOPICS)
            assert len(release.unsent(db)) == 1
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
        again.cohort.mark_sent([first[0][:2]])
        assert again.cohort.unsent() == []


def test_a_window_is_closed_once(tmp_path: Path) -> None:
    """Closing again, with more data or without, charges nothing more."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        assert len(here.cohort.close_due()) == 1
        here.cohort.take([from_device("late", START, [1, 1, 1])])
        assert here.cohort.close_due() == []
        assert rows(here, "ledger") == 1


def test_late_ticks_are_counted_and_never_released_again(tmp_path: Path) -> None:
    """Data for a closed window is counted, seen and reported as late."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        here.cohort.take([from_device("d9", START + 15, [1] * 10)])
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
        assert here.cohort.close_due() == []
        here.clock.tick = START + 25
        assert len(here.cohort.close_due()) == 1


def test_a_window_over_budget_is_refused_and_charged_nothing(tmp_path: Path) -> None:
    """When the ledger holds too much already, the window is refused with the reason, no debit, no result."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        here.cohort.close_due()
        here.adopt(policy(2, windows={"short": Window(ticks=20), "other": Window(ticks=20)}))
        here.window(1)
        assert {one.span.window: one.refused is None for one in here.cohort.close_due()} == {
            "short": True,
            "other": True,
        }
        smaller = {"operator": 4.0, "public": 0.05}
        here.adopt(policy(3, epsilon=stream_policy().epsilon.model_copy(update=smaller)))
        here.window(2, noise=3)
        before = rows(here, "ledger")
        (one,) = here.cohort.close_due()
        assert one.refused is not None
        assert "0.05" in one.refused
        assert one.entry is None
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
        ends = {one.span.window: one for one in here.cohort.close_due()}
        assert ends["long"].entry is not None
        assert (ends["long"].loss or 1.0) <= 0.95
        whole = spending(stream, "long", theta=WIDE, noises=[one.noise for one in _debits(here)[:1]])
        (long,) = [one for one in _debits(here) if one.last - one.first == 39]
        assert long.tilt == whole.lessened().tilt
        assert 0.74 * whole.tilt < whole.lessened().tilt <= 0.75 * whole.tilt


def _debits(here: Desk) -> list[Debit]:
    with here.engine.begin() as db:
        return public_debits(db, STREAM)


def test_the_ledger_keeps_within_the_budget_for_long(tmp_path: Path) -> None:
    """Window after window, the price of the whole history stays within ε, and nothing is refused."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        for number in range(6):
            here.window(number)
            (one,) = here.cohort.close_due()
            assert one.refused is None
            assert one.loss is not None
            assert one.loss <= 1.0
        (account,) = here.cohort.accounts()
        assert account.public.loss <= account.public.budget
        assert account.entries == 6


def test_the_message_says_what_was_charged(tmp_path: Path) -> None:
    """Tilt, entry, loss and budget in the message are those of the ledger."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window(devices=4)
        (one,) = here.cohort.close_due()
        ((entry, topic, payload),) = here.cohort.unsent()
        message = decode(Release, payload)
        with here.engine.begin() as db:
            (debit,) = public_debits(db, STREAM)
        assert (message.entry, message.tilt, message.loss) == (entry, debit.tilt, one.loss)
        assert topic == TOPICS.release(STREAM, "short", "cohort")
        assert (message.devices, message.ticks, sum(message.counts)) == (4, 80, 80)
        assert (message.first, message.last) == (START, START + 19)
        assert sum(message.frequencies) == pytest.approx(1.0)


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

    monkeypatch.setattr(count_two, "noisy", watch)
    monkeypatch.setattr(learn_two, "noisy_together", watch_together)
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        for number in range(FIRST_LOOK):
            assert statistics == []
            here.window(number, devices=3)
            here.cohort.close_due()
        messages = [decode(Release, payload) for _, _, payload in here.cohort.unsent()]
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
        closed = here.cohort.close_due()
        assert [(one.span.window, one.span.scope) for one in closed] == [
            ("short", "cohort"),
            ("short", "device"),
        ]
        messages = {
            decode(Release, payload).scope: decode(Release, payload) for *_, payload in here.cohort.unsent()
        }
        assert set(messages) == {"cohort", "d0", "d1", "d2"}
        assert messages["cohort"].ticks == 60
        assert all(messages[f"d{n}"].ticks == 20 and messages[f"d{n}"].devices == 1 for n in range(3))
        assert len({messages[f"d{n}"].entry for n in range(3)}) == 1


def test_scopes_and_lengths_of_the_same_ticks_add_up(tmp_path: Path) -> None:
    """Two scopes and two lengths over the same ticks cost their sum, and together stay within ε, nearly all of it."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=SCOPES))
        losses = []
        for number in range(6):
            here.window(number)
            for one in here.cohort.close_due():
                assert one.refused is None
                losses.append(one.loss)
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
        here.cohort.take([from_device("cohort", START, [1])])
        assert here.cohort.devices() == set()


def test_proper_frequencies_where_asked(tmp_path: Path) -> None:
    """With `proper`, frequencies are never negative and sum to one, whatever the noise does."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows={"short": Window(ticks=20, proper=True)}))
        for number in range(8):
            here.window(number, devices=1)
            here.cohort.close_due()
        for *_, payload in here.cohort.unsent():
            message = decode(Release, payload)
            assert min(message.frequencies) >= 0
            assert sum(message.frequencies) == pytest.approx(1.0)


@pytest.mark.parametrize("method", METHODS)
def test_whatever_the_method_the_ledger_prices_exactly(
    tmp_path: Path, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A method decides the scale; the price is the timeline's, and only the exact method uses the budget up."""
    monkeypatch.setattr(learn, "FIRST_LOOK", 1000)  # nothing is learned, so that Θ stays as it is
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows={"short": Window(ticks=20, method=method)}))
        for number in range(30):
            here.window(number)
            (one,) = here.cohort.close_due()
        with here.engine.begin() as db:
            debits = public_debits(db, STREAM)
        assert one.loss is not None
        assert one.loss == pytest.approx(price_public(debits, WIDE, stream_policy()).epsilon, rel=1e-9)
        assert one.loss <= 1.0
        assert (one.loss > 0.99) == (method in {"least-noise", "tilted-quilt"})
        (message, *_) = [decode(Release, payload) for _, _, payload in here.cohort.unsent()]
        spent = spending(
            stream_policy(windows={"short": Window(ticks=20, method=method)}),
            "short",
            theta=WIDE,
            noises=[debits[0].noise],
        )
        assert message.scale == scale_for(1, spent.release)


def test_a_method_that_holds_no_longer_releases_nothing(tmp_path: Path) -> None:
    """Where Θ has widened beyond what mqm-exact is certified for, the window is refused with the reason."""
    beyond = Box(0.15, 0.7, 0.15, 0.7)
    with desk(sqlite(tmp_path)) as here:
        stream = stream_policy(windows={"short": Window(ticks=20, method="mqm-exact")})
        here.adopt(policy(windows=stream.windows))
        here.window()
        span = release.Span(STREAM, "short", START, START + 19)
        with here.engine.begin() as db:
            one = release.close(db, span, stream, account=Account(beyond, "prior"), topics=TOPICS)
        assert one.entry is None
        assert "q + r" in (one.refused or "")
        assert rows(here, "ledger") == 0


def test_states_that_no_setting_can_explain_are_not_released(tmp_path: Path) -> None:
    """Where nothing was issued that a window's ticks can carry, its price is unknown: it is refused."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window()
        with here.engine.begin() as db:
            db.execute(update(store.setting).values(issued=START + 1000))
        (one,) = here.cohort.close_due()
        assert one.entry is None
        assert "can carry" in (one.refused or "")


def test_intervals_hold_the_truth_as_often_as_they_say(tmp_path: Path) -> None:
    """Of many device windows of known shares of ones, about 95% of the intervals hold the share that was sent."""
    held = []
    devices, ticks = 400, 20
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows={"short": Window(ticks=ticks, scopes=("device",))}))
        here.clock.tick = START + ticks + 1
        rng = random.Random(5)
        setting = here.cohort.settings()[STREAM].message
        noise = flips_of(setting.noise)
        chances = [1 - noise.rho1] * 6 + [noise.rho0] * 14
        sent = [[int(rng.random() < p) for p in chances] for _ in range(devices)]
        here.cohort.take([from_device(f"d{n}", START, one) for n, one in enumerate(sent)])
        here.cohort.close_due()
        for _, _, payload in here.cohort.unsent():
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
