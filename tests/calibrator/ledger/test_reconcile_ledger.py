"""A ledger restored from an old backup goes on when ops have signed its worst case: it gives nothing back."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.reconciliation import LostStretch, Reconciliation
from hushmq.broker.contract.signature import PrivateKey
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ledger.audience_timelines import price_public
from hushmq.calibrator.ledger.debits import Debit, Unperturbed, public_debits
from hushmq.calibrator.ledger.high_water_mark import HighWaterMark, read_marks
from hushmq.calibrator.ledger.ledger_report import stored_policy
from hushmq.calibrator.ledger.lost_entries import lost_stretch
from hushmq.calibrator.ledger.reconcile_ledger import reconcile, unreached
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store import tables as store
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.ledger.test_high_water_mark import backup, restore
from tests.calibrator.site import (
    CALIBRATOR,
    OPS,
    START,
    STRANGER,
    STREAM,
    TOPICS,
    Clock,
    Desk,
    desk,
    from_device,
    policy,
    sqlite,
    states,
    stream_policy,
)
from tests.hushmq.verify.exported import checked, exported, faults, sealed_again
from tests.pufferfish.oracles import attack, both, count, from_sanitized


def fill(here: Desk, *windows: int, noise: int = 1) -> None:
    for number in windows:
        here.window(number, noise=noise)
        here.cohort.close_due()


def old_ledger(folder: Path) -> bytes:
    """A ledger of one window where there were three; returns the state that the broker retains."""
    with desk(sqlite(folder), mark_path=folder / "mark") as here:
        here.adopt()
        fill(here, 0)
    backup(folder)
    with desk(sqlite(folder), mark_path=folder / "mark") as here:
        fill(here, 1, 2)
        retained = encode(here.cohort.ledger_states()[0])
    restore(folder)
    return retained


def statement(here: Desk, mark_path: Path, **changes: Any) -> Reconciliation:
    with here.engine.begin() as db:
        lost = lost_stretch(db, STREAM, read_marks(mark_path)[STREAM], now=here.clock())
    return Reconciliation(cohort="test", streams={STREAM: lost.model_copy(update=changes)})


def charge(here: Desk, mark_path: Path, message: Reconciliation, key: PrivateKey = OPS) -> None:
    with here.engine.begin() as db:
        followed = stored_policy(db)
        assert followed is not None
        reconcile(
            db,
            encode(key.sign(message)),
            cohort="test",
            policy=followed,
            marks=unreached(db, read_marks(mark_path), [OPS.public]),
            ops_keys=[OPS.public],
            now=here.clock(),
        )


def test_a_reconciled_ledger_goes_on_and_gives_nothing_back(tmp_path: Path) -> None:
    """A running calibrator goes on by itself: lost ticks at their worst case, later windows within ε, all recomputed.

    No window that may have been released is released again, the old marks no longer stop it, and a second backup of the
    ledger before the reconciliation does.
    """
    retained = old_ledger(tmp_path)
    mark = tmp_path / "mark"
    with desk(sqlite(tmp_path), mark_path=mark, clock=Clock(START + 61)) as here:
        fill(here, 3)
        assert STREAM in here.cohort.stopped
        assert not here.cohort.resume()
        charge(here, mark, statement(here, mark))
        assert here.cohort.resume()
        assert here.cohort.stopped == {}
        setting = here.cohort.calibrate()[STREAM]
        assert setting.message.version == 2
        (state,) = here.cohort.ledger_states()
        (ended,) = state.ended
        assert (ended.reason, state.epoch) == ("restored", 2)
        assert (
            ended.public > 1.0
        )  # the whole ε at every tick of the stretch, and what neighbours tell of each other
        assert ended.operator > 4.0
        here.cohort.receive([Arrived(TOPICS.ledger(STREAM), retained)])
        assert here.cohort.stopped == {}
        fill(here, 4, 5, 6, noise=2)
        with here.engine.begin() as db:
            windows = [row.first for row in db.execute(store.ledger.select()) if row.window]
            assert all(check.passed for check in verify(db, STREAM, mark, [OPS.public]))
        assert windows[0] == START
        assert windows[1:] == [
            START + 100,
            START + 120,
        ]  # those up to the signed tick are closed without a result
        (state,) = here.cohort.ledger_states()
        assert 0 < state.public.loss <= 1.0
        assert state.operator.loss <= 4.0
        assert faults(checked(exported(here), tmp_path)) == {}
    restore(tmp_path)
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        assert STREAM in here.cohort.stopped


def test_a_restart_accepts_what_only_ops_signed(tmp_path: Path) -> None:
    """Killed before the mark is written, it starts and goes on; with other keys of ops it stays stopped."""
    old_ledger(tmp_path)
    mark = tmp_path / "mark"
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        charge(here, mark, statement(here, mark))
    with desk(sqlite(tmp_path), mark_path=mark, ops=[STRANGER]) as here:
        assert "no key that is trusted here" in here.cohort.stopped[STREAM]
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        assert here.cohort.stopped == {}
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        assert here.cohort.stopped == {}
    assert read_marks(mark)[STREAM].entries == 6  # three were lost or kept, two charge, one begins an epoch


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({}, STRANGER, "unknown-key"),
        ({"public": NANO - 1}, OPS, "public: 999999999 is below 1000000000"),
        ({"operator": NANO}, OPS, "operator"),
        ({"first": START + 21, "last": START + 30}, OPS, "first"),
        ({"last": START + 10**9}, OPS, "has not come yet"),
        ({"after_head": "ab" * 32}, OPS, "the ledger is another one now"),
        ({"entries": 2}, OPS, "the mark is another one now"),
        ({"policies": ()}, OPS, "another policy"),
    ],
)
def test_what_does_not_charge_enough_is_refused(
    tmp_path: Path, changes: dict[str, Any], key: PrivateKey, why: str
) -> None:
    """A statement of another key, ledger or mark, or that charges less than must be: nothing is changed."""
    old_ledger(tmp_path)
    mark = tmp_path / "mark"
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        made = statement(here, mark, **changes)
        with pytest.raises(Problem, match=why):
            charge(here, mark, made, key)
        assert not here.cohort.resume()
        with here.engine.begin() as db:
            assert len(public_debits(db, STREAM)) == 1


def test_a_statement_is_applied_once(tmp_path: Path) -> None:
    """Applied again, also after the ledger went on, it charges nothing: there is no mark that is not reached."""
    old_ledger(tmp_path)
    mark = tmp_path / "mark"
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        made = statement(here, mark)
        charge(here, mark, made)
        with pytest.raises(Problem, match="reaches its mark"):
            charge(here, mark, made)


def test_a_policy_that_was_lost_is_asked_for(tmp_path: Path) -> None:
    """A database older than two policies knows neither budget: the missing one has to be given, and decides."""
    old_ledger(tmp_path)
    mark = tmp_path / "mark"
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        here.adopt(policy(3))
        with here.engine.begin() as db:
            known = read_marks(mark)[STREAM]
            with pytest.raises(Problem, match="policy 2 may have been in force"):
                lost_stretch(db, STREAM, known, now=here.clock())
            second = policy(2, epsilon={"operator": 5.0, "public": 1.5})
            lost = lost_stretch(db, STREAM, known, now=here.clock(), given=[second])
    assert (lost.public, lost.operator) == (1_500_000_000, 5_000_000_000)
    assert lost.policies == (1, 2, 3)


def test_changed_charges_are_found_out(tmp_path: Path) -> None:
    """Who writes less than ops signed into database or export is found out, with every digest and seal made anew."""
    old_ledger(tmp_path)
    mark = tmp_path / "mark"
    with desk(sqlite(tmp_path), mark_path=mark) as here:
        charge(here, mark, statement(here, mark))
        assert here.cohort.resume()
        tree = exported(here)
        assert faults(checked(tree, tmp_path)) == {}
        for entry in tree["streams"][STREAM]["entries"]:
            if entry["audience"] == "operator":
                entry["tilt"] -= 1
        assert f"{STREAM}: lost entries, charged as ops signed" in faults(
            checked(sealed_again(tree), tmp_path)
        )
        with here.engine.begin() as db:
            changed = store.ledger.update().where(store.ledger.c.audience == "operator")
            db.execute(changed.values(tilt=store.ledger.c.tilt - 1))
            found = {check.name: check.passed for check in verify(db, STREAM, None, [OPS.public])}
    assert not found["lost entries charged as signed"]


@pytest.mark.parametrize("seed", range(20))
def test_the_worst_case_covers_whatever_was_lost(seed: int) -> None:
    """A11 by enumeration: no windows within ε, through any noise, cost more than ε of tilt at each of their ticks.

    Every path and output of five ticks, for the chain that prices; the windows are as dear as ε allows.
    """
    rng = random.Random(seed)
    q, r = rng.uniform(0.1, 0.5), rng.uniform(0.1, 0.5)
    theta = BinaryTheta(q, q, r, r)
    noise = BinaryNoise(rng.uniform(0.05, 0.3), rng.uniform(0.05, 0.3))
    epsilon = rng.uniform(0.5, 2.0)
    spans = [(0, 1), (2, 4)] if seed % 2 else [(0, 4)]
    own = stream_policy()

    def lost(tilt: float) -> list[Debit]:
        return [Debit(first, last, math.floor(tilt * NANO), noise) for first, last in spans]

    low, high = 0.0, 8.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if price_public(lost(middle), theta, own).epsilon <= epsilon else (low, middle)
        )
    windows = [count(5, first, last, 1 / low) for first, last in spans]
    release = windows[0] if len(windows) == 1 else both(*windows)
    seen = from_sanitized([(noise.rho0, noise.rho1)] * 5, release)
    truth = attack(q, r, seen, informed=False).loss
    assert truth <= epsilon + 1e-6
    worst = price_public([Debit(0, 4, math.ceil(epsilon * NANO), Unperturbed())], theta, own).epsilon
    assert truth <= worst


def test_the_worst_case_is_attained() -> None:
    """States that tell nothing of each other, a count of one tick without noise on it: ε, and 1% less would not do."""
    epsilon, free = 1.0, BinaryTheta(0.5, 0.5, 0.5, 0.5)
    truth = attack(0.5, 0.5, count(3, 1, 1, 1 / epsilon), informed=False).loss
    assert truth == pytest.approx(epsilon)
    charged = price_public([Debit(0, 2, NANO, Unperturbed())], free, stream_policy()).epsilon
    less = price_public([Debit(0, 2, NANO * 99 // 100, Unperturbed())], free, stream_policy()).epsilon
    assert less < truth <= charged + 1e-9


def test_marks_of_lost_numbers() -> None:
    """A stretch has an end that is not before its beginning; a mark of no entry contradicts nothing."""
    fields = {
        "entries": 3,
        "head": "a" * 64,
        "after": 1,
        "after_head": "b" * 64,
        "settings": 1,
        "policies": (1,),
    }
    with pytest.raises(ValueError, match="first must not be after last"):
        LostStretch(first=5, last=4, public=1, operator=1, **fields)
    assert HighWaterMark().entries == 0


def settings_file(folder: Path) -> Path:
    """A calibrator's settings, for the database of `old_ledger`."""
    OPS.save(folder / "ops.key")
    CALIBRATOR.save(folder / "calibrator.key")
    path = folder / "calibrator.toml"
    path.write_text(
        f'cohort = "test"\ndatabase = "{sqlite(folder)}"\nmark_file = "{folder / "mark"}"\n'
        f'[broker]\nurls = ["mqtt://127.0.0.1"]\n'
        f'[keys]\nops_keys = ["{OPS.public}"]\nsigning_key_file = "{folder / "calibrator.key"}"\n',
        encoding="utf-8",
    )
    return path


def test_the_command_in_three_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Show, sign elsewhere, apply; `show` says that the stream is stopped before, and `verify` is right after."""
    old_ledger(tmp_path)
    config, made, signed = (str(tmp_path / name) for name in ("calibrator.toml", "lost.json", "signed.json"))
    settings_file(tmp_path)
    assert main(["ledger", "show", "--config", config]) == 0
    assert "STOPPED" in capsys.readouterr().out
    assert main(["ledger", "reconcile", "--config", config, "--out", made]) == 0
    assert "has 1 entries and has had 3" in capsys.readouterr().out
    assert main(["ledger", "reconcile", "--config", config, "--statement", made]) == 2
    key = str(tmp_path / "ops.key")
    assert main(["ledger", "reconcile", "--statement", made, "--key", key, "--out", signed]) == 0
    capsys.readouterr()
    assert main(["ledger", "reconcile", "--config", config, "--statement", signed, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["reconciled"][STREAM]
    assert told["epoch"] == 2
    assert main(["ledger", "verify", "--config", config]) == 0
    assert "lost entries charged as signed" in capsys.readouterr().out
    assert main(["ledger", "show", "--config", config]) == 0
    assert "STOPPED" not in capsys.readouterr().out
    assert main(["ledger", "reconcile", "--config", config, "--key", key, "--yes"]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--key", "ops.key"], "--statement"),
        (["--config", "calibrator.toml", "--stream", "none"], "--stream"),
        (["--config", "calibrator.toml", "--policy", "none.toml"], "none.toml"),
        (["--config", "calibrator.toml", "--statement", "none.json"], "--statement"),
        (["--config", "calibrator.toml", "--key", "ops.key"], "--yes"),
    ],
)
def test_the_command_refuses(
    tmp_path: Path,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One line that names the option, exit code 2, nothing charged."""
    old_ledger(tmp_path)
    settings_file(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["ledger", "reconcile", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_device_batches_of_the_lost_time_are_not_released(tmp_path: Path) -> None:
    """Batches of the stretch that come afterwards are counted as late, and no window over them opens again."""
    old_ledger(tmp_path)
    mark = tmp_path / "mark"
    with desk(sqlite(tmp_path), mark_path=mark, clock=Clock(START + 81)) as here:
        charge(here, mark, statement(here, mark))
        assert here.cohort.resume()
        here.cohort.receive([from_device(f"d{n}", START + 20, states(40, seed=n)) for n in range(3)])
        here.cohort.close_due()
        assert here.cohort.released == 0
        (state,) = here.cohort.ledger_states()
        assert state.late == 120
