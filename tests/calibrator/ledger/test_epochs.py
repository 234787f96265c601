"""Epochs: a changed meaning starts beliefs anew, a contradiction is stated and gone on from, and both are sealed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, func, select, update

from hushmq.broker.contract.policy_message import Threshold, Window
from hushmq.broker.contract.problem import Reason
from hushmq.calibrator.learning.learned_theta import LearnedTheta, is_learned, read_cohort, write_learned
from hushmq.calibrator.learning.learning_progress import Progress, read_progress, write_progress
from hushmq.calibrator.ledger import policy_epochs
from hushmq.calibrator.ledger.begin_epoch import begin_epoch, write_first
from hushmq.calibrator.ledger.debits import public_debits
from hushmq.calibrator.ledger.epochs import read_epochs
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.windows.close_window import close_window
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.conftest import Databases
from tests.calibrator.moving_cohort import (
    DEVICES,
    EPSILON,
    FAST,
    FIRST,
    SLOW,
    TICKS,
    WIDE_START,
    MovingCohort,
    moving_policy,
)
from tests.calibrator.site import (
    START,
    STREAM,
    TOPICS,
    Desk,
    desk,
    from_device,
    sqlite,
    states,
    stream_policy,
)
from tests.pufferfish.oracles import attack, both, count, from_sanitized

LEARNED = BinaryTheta(0.37, 0.41, 0.37, 0.41)
OTHER = Threshold(at=20.0)


@pytest.fixture
def moving(tmp_path: Path) -> Iterator[MovingCohort]:
    with desk(sqlite(tmp_path)) as one:
        yield MovingCohort(one)


def events(one: Desk, name: str) -> list[dict[str, Any]]:
    lines = map(json.loads, one.log.getvalue().splitlines())
    return [line for line in lines if line["event"] == name]


def learn(db: Connection, theta: BinaryTheta = LEARNED) -> None:
    """What a long quiet time teaches."""
    write_learned(db, STREAM, LearnedTheta(theta))
    write_progress(db, STREAM, Progress(windows=4, undetectable=0.0))


def verified(one: Desk) -> dict[str, bool]:
    with one.engine.begin() as db:
        return {check.name: check.passed for check in verify(db, STREAM)}


def test_a_changed_meaning_starts_the_beliefs_anew(moving: MovingCohort) -> None:
    """Under another threshold the learned Θ and its noise would lose far more than 8; now at most 8 are lost."""
    moving.follow(moving_policy())
    with moving.desk.engine.begin() as db:
        learn(db)
    old = moving.desk.cohort.calibrate()[STREAM].message
    assert old.theta.chains == LEARNED
    lost = WIDE_START.constant_loss(*old.noise.noise.tilts, "prior")
    assert lost > 10  # what a slower chain under the new threshold would have lost, of 8

    moving.follow(moving_policy(2, discretiser=OTHER))
    with moving.desk.engine.begin() as db:
        assert not is_learned(db, STREAM)
        assert read_progress(db, STREAM) == Progress()
        current = read_epochs(db, STREAM).current
    assert (current.number, current.reason) == (2, "meaning")
    new = moving.desk.cohort.calibrate()[STREAM].message
    assert new.theta.chains == WIDE_START
    assert WIDE_START.constant_loss(*new.noise.noise.tilts, "prior") <= 8.0
    assert [event["reason"] for event in events(moving.desk, "epoch_began")] == ["meaning"]
    assert events(moving.desk, "promise_broken") == []
    assert all(verified(moving.desk).values())


def test_the_new_noise_is_enough_beside_the_old(moving: MovingCohort) -> None:
    """Right after a change of meaning, what was published before tells of the first new ticks: priced, within ε.

    The noise that would do for ever under the new Θ would not do there.
    """
    moving.follow(moving_policy())
    with moving.desk.engine.begin() as db:
        learn(db)
    moving.window(FAST)
    moving.follow(moving_policy(2, discretiser=OTHER))
    noise = moving.desk.cohort.calibrate()[STREAM].message.noise.noise
    assert WIDE_START.constant_loss(*noise.tilts, "prior") < 7.99
    moving.window(SLOW)
    ledger = moving.ledger
    assert 7.5 < ledger.operator.loss <= 8.0
    assert ledger.public.loss <= 4.0
    (ended,) = ledger.ended
    assert (ended.reason, ended.last) == ("meaning", FIRST + TICKS - 1)
    assert ended.operator <= 8.0
    assert ended.public <= 4.0
    assert all(verified(moving.desk).values())


@pytest.mark.parametrize(
    "changes",
    [
        {"discretiser": OTHER},
        {"states": ("off", "on")},
        {"source": "ring-4"},
        {"stand_in": "moving"},
        {"epoch": 2},
    ],
)
def test_what_begins_an_epoch(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The discretiser, the names of states, the source, the stand-in, and ops' own number; nothing else does."""
    with desk(sqlite(tmp_path)) as one:
        cohort = MovingCohort(one)
        cohort.follow(moving_policy())
        cohort.follow(
            moving_policy(2, learning=0.3, adversary="informed", windows={"long": Window(ticks=800)})
        )
        assert cohort.ledger.epoch == 1
        cohort.follow(moving_policy(3, **changes))
        assert cohort.ledger.epoch == 2
        cohort.follow(moving_policy(4, **changes))
        assert cohort.ledger.epoch == 2


def test_a_stream_that_comes_back_with_another_meaning(moving: MovingCohort) -> None:
    """What was learned under a name belongs to its meaning, also while no policy has the stream."""
    moving.follow(moving_policy())
    with moving.desk.engine.begin() as db:
        learn(db)
    moving.desk.cohort.calibrate()
    without = moving_policy(2)
    moving.follow(without.model_copy(update={"streams": {"other": without.streams[STREAM]}}))
    moving.follow(moving_policy(3, discretiser=OTHER))
    with moving.desk.engine.begin() as db:
        epochs = read_epochs(db, STREAM)
        assert not is_learned(db, STREAM)
    assert epochs.current.reason == "meaning"
    assert [one.theta for one in epochs.ended] == [LEARNED]


def test_the_number_of_an_epoch_only_rises(moving: MovingCohort) -> None:
    """A policy that lowers it is refused, and the one before it stays."""
    moving.follow(moving_policy(epoch=3))
    moving.follow(moving_policy(2, epoch=2))
    assert moving.desk.cohort.rejected == {Reason.STALE_VERSION: 1}
    assert moving.desk.cohort.policy == moving_policy(epoch=3)


def test_states_of_the_old_meaning_are_not_counted(moving: MovingCohort) -> None:
    """A device that has not heard of the change goes on under an old setting: stand-ins are counted for its states, and
    nothing is learned from them.
    """
    moving.follow(moving_policy())
    moving.window(FAST)
    moving.desk.clock.tick += TICKS - 10  # in the middle of a window, also by the slowest clock
    moving.follow(moving_policy(2, discretiser=OTHER))
    moving.desk.cohort.calibrate()
    refusal = moving.window(FAST, version=1).refusal
    assert refusal is not None
    assert "epoch 2 began" in refusal.reason
    late = moving.window(FAST, version=1)
    assert late.charge is not None
    assert late.filled == DEVICES * TICKS
    with moving.desk.engine.begin() as db:
        assert db.execute(select(store.pending)).all() == []
    moving.window(FAST)
    with moving.desk.engine.begin() as db:
        assert set(db.execute(select(store.pending.c.noise)).scalars()) == {2}


def until_contradicted(moving: MovingCohort, **changes: Any) -> int:
    """Learn a fast chain, which then becomes slow; the number of windows until that is noticed."""
    moving.follow(moving_policy(**changes))
    for _ in range(9):
        assert moving.window(FAST).charge is not None
    for number in range(1, 9):
        learned = moving.window(SLOW).learned
        assert learned is not None
        if learned.outcome == "restarted":
            return number
    raise AssertionError("the change was not noticed")


def test_a_contradiction_is_stated_and_gone_on_from(moving: MovingCohort) -> None:
    """What was lost is said; windows are released from the next on, and no tick of the new epoch loses more than ε."""
    until_contradicted(moving)
    last = FIRST + moving.windows * TICKS - 1
    ledger = moving.ledger
    (ended,) = ledger.ended
    assert (ledger.epoch, ended.reason, ended.last, ledger.stopped) == (2, "contradiction", last, None)
    assert ended.public > 1.2 * EPSILON.public
    assert ended.operator > 1.1 * EPSILON.operator
    said = events(moving.desk, "promise_broken")
    assert [(event["level"], event["audience"], event["last"]) for event in said] == [
        ("error", "operator", last),
        ("error", "public", last),
    ]
    assert ledger.broken_promises() == [
        f"ticks 0 to {last}: the promise of {budget:g} to the {audience} did not hold, the loss may be up to {loss:.4f}"
        for audience, budget, loss in (("operator", 8, ended.operator), ("public", 4, ended.public))
    ]
    first = moving.window(SLOW)
    assert first.charge is not None
    spent = [first.charge.spent.tilt]
    for _ in range(5):
        charge = moving.window(SLOW).charge
        assert charge is not None
        assert charge.loss <= EPSILON.public
        spent.append(charge.spent.tilt)
    ledger = moving.ledger
    assert ledger.public.loss <= EPSILON.public
    assert ledger.operator.loss <= EPSILON.operator
    # Beside what was released in the old epoch the first window gets less; later ones the whole share.
    assert spent[0] < 0.6 * spent[1]
    assert spent[1:4] == [spent[1]] * 3
    # Releases of the new epoch raise what the old one has lost by next to nothing, and that is stated.
    (now,) = ledger.ended
    assert ended.public <= now.public < ended.public + 0.2
    checks = verified(moving.desk)
    assert checks["epochs as they began"]
    assert all(checks.values())


def test_a_policy_may_want_the_stream_to_stop(moving: MovingCohort) -> None:
    """Then nothing is released after a contradiction, until ops raise the epoch; what was lost is said."""
    until_contradicted(moving, after_contradiction="stop")
    ledger = moving.ledger
    assert (ledger.epoch, ledger.ended) == (1, ())
    assert ledger.stopped is not None
    assert ledger.stopped.endswith("a policy with epoch = 2 goes on in a new epoch")
    assert moving.window(SLOW).refusal is not None
    moving.follow(moving_policy(2, after_contradiction="stop", epoch=2))
    moving.window(SLOW)  # ops signed in the middle of it
    assert moving.window(SLOW).charge is not None
    ledger = moving.ledger
    (ended,) = ledger.ended
    assert (ledger.epoch, ended.reason, ledger.stopped) == (2, "ops", None)
    assert ended.public > EPSILON.public
    assert ledger.public.loss <= EPSILON.public
    assert ledger.operator.loss <= EPSILON.operator
    assert len(events(moving.desk, "promise_broken")) == 2
    assert all(verified(moving.desk).values())


def test_a_wider_start_ends_an_epoch_that_it_puts_over_budget(moving: MovingCohort) -> None:
    """Ops who widen Θ say that the old one was wrong: what that means for the past is stated, and it goes on."""
    narrow = (
        moving_policy()
        .streams[STREAM]
        .theta.model_copy(update={"start": moving_policy().streams[STREAM].theta.floor})
    )
    moving.follow(moving_policy(theta=narrow))
    assert moving.window(FAST).charge is not None
    moving.follow(moving_policy(2, theta=narrow, epsilon=EPSILON.model_copy(update={"public": 3.0})))
    assert moving.ledger.epoch == 1  # a smaller ε is no contradiction
    moving.follow(moving_policy(3))
    ledger = moving.ledger
    (ended,) = ledger.ended
    assert ended.reason == "contradiction"
    assert ended.public > EPSILON.public
    moving.window(FAST)
    assert moving.window(FAST).charge is not None
    assert moving.ledger.public.loss <= EPSILON.public


def test_no_tick_of_a_new_epoch_loses_more_by_enumeration(tmp_path: Path) -> None:
    """Two windows of two ticks in each epoch, through real charges: every path, every output, for the slowest chain."""
    wide, narrow = BinaryTheta(0.2, 0.4, 0.2, 0.4), BinaryTheta(0.36, 0.4, 0.36, 0.4)
    stream = stream_policy(windows={"short": Window(ticks=2)}, learning=0.5)
    with desk(sqlite(tmp_path)) as one:
        one.adopt()
        one.clock.tick = START + 20
        one.cohort.receive(from_device(f"d{n}", START, states(8, seed=n)) for n in range(3))
        with one.engine.begin() as db:
            noise = BINARY.read_noise(json.loads(db.execute(select(store.setting.c.noise)).scalar_one()))
            assert isinstance(noise, BinaryNoise)
            for theta, firsts in ((narrow, (0, 2)), (wide, (4, 6))):
                if theta is wide:
                    write_first(db, STREAM, stream, version=1)
                    begin_epoch(
                        db, STREAM, stream, version=1, first=0, reason="contradiction", ended_theta=wide
                    )
                for first in firsts:
                    span = Span(STREAM, "short", START + first, START + first + 1)
                    done = close_window(db, span, read_accounts(db, STREAM, stream, theta=theta), TOPICS)
                    assert done.charge is not None
            debits = public_debits(db, STREAM)
            accounts = read_accounts(db, STREAM, stream, theta=wide)
            (ended,) = accounts.ended_losses(db)
    windows = [count(8, 2 * n, 2 * n + 1, NANO / debit.tilt) for n, debit in enumerate(debits)]
    release = windows[0]
    for other in windows[1:]:
        release = both(release, other)
    seen = from_sanitized([(noise.rho0, noise.rho1)] * 8, release)
    old = attack(0.2, 0.2, seen, informed=False, ticks=range(4)).loss
    new = attack(0.2, 0.2, seen, informed=False, ticks=range(4, 8)).loss
    assert old > 1.02  # the promise of 1 did not hold, and what is stated is no less
    assert old <= ended.public + 1e-9
    assert 0.8 < new <= accounts.public_loss() + 1e-9
    assert accounts.public_loss() <= 1.0
    # Without the smaller share of the first window it would have been more: charged like the last, it breaks ε.
    dearer = both(both(windows[0], windows[1]), both(count(8, 4, 5, NANO / debits[-1].tilt), windows[3]))
    worse = attack(
        0.2, 0.2, from_sanitized([(noise.rho0, noise.rho1)] * 8, dearer), informed=False, ticks=range(4, 8)
    ).loss
    assert debits[2].tilt < debits[3].tilt
    assert worse > new


def test_an_epoch_cannot_be_changed_unseen(moving: MovingCohort) -> None:
    """Moved, given another Θ or deleted, with or without its ledger entry: `ledger verify` finds it."""
    moving.follow(moving_policy())
    moving.window(FAST)
    moving.follow(moving_policy(2, discretiser=OTHER))
    assert all(verified(moving.desk).values())
    second = store.epoch.c.number == 2
    changes = (
        update(store.epoch).where(second).values(first=7),
        update(store.epoch).where(second).values(ended_theta=json.dumps(LEARNED.as_tree())),
        update(store.epoch).where(store.epoch.c.number == 1).values(meaning="0" * 32),
        delete(store.epoch).where(second),
    )
    for change in changes:
        with moving.desk.engine.connect() as db:
            db.execute(change)
            found = {check.name: check.passed for check in verify(db, STREAM)}
            assert not found["epochs as they began"]
            db.rollback()
    with moving.desk.engine.connect() as db:
        db.execute(delete(store.epoch).where(second))
        db.execute(delete(store.ledger).where(store.ledger.c.audience == "epoch"))
        moving_on = {check.name: check.passed for check in verify(db, STREAM)}
        db.rollback()
    assert all(moving_on.values())  # cut off at its end, a ledger is caught by its high-water mark alone
    moving.window(FAST)
    moving.window(FAST)
    with moving.desk.engine.connect() as db:
        db.execute(delete(store.epoch).where(second))
        db.execute(delete(store.ledger).where(store.ledger.c.audience == "epoch"))
        assert not {check.name: check.passed for check in verify(db, STREAM)}["entries as they were written"]
        db.rollback()


def test_an_epoch_begins_with_its_policy_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two, the database has neither; the next start follows the policy and begins the epoch."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    url = sqlite(tmp_path)
    with desk(url) as one:
        cohort = MovingCohort(one)
        cohort.follow(moving_policy())
        with one.engine.begin() as db:
            learn(db)
        with monkeypatch.context() as patch:
            patch.setattr(policy_epochs, "begun_epoch", killed)
            with pytest.raises(KeyboardInterrupt):
                cohort.follow(moving_policy(2, discretiser=OTHER))
    with desk(url) as one:
        cohort = MovingCohort(one)
        assert one.cohort.policy == moving_policy()
        with one.engine.begin() as db:
            assert read_cohort(db, STREAM, BINARY) == LEARNED
            assert db.execute(select(func.count()).select_from(store.ledger)).scalar() == 0
        cohort.follow(moving_policy(2, discretiser=OTHER))
        assert cohort.ledger.epoch == 2


def test_two_calibrators_begin_one_epoch(databases: Databases) -> None:
    """Both hear of the policy; the second finds the epoch begun, and both account for it."""
    url = databases.fresh()
    with desk(url) as one, desk(url) as other:
        for each in (one, other):
            MovingCohort(each).follow(moving_policy())
        for each in (one, other):
            MovingCohort(each).follow(moving_policy(2, source="ring-5"))
        assert [each.cohort.ledger_states()[0].epoch for each in (one, other)] == [2, 2]
        with one.engine.begin() as db:
            assert db.execute(select(func.count()).select_from(store.epoch)).scalar() == 2
        assert len(events(one, "epoch_began")) == 1
        assert events(other, "epoch_began") == []
