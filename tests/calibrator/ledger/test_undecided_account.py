"""Accounts for the undecided adversary, and its number beside those of other adversaries."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.policy_message import Assumption
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.commands.show_ledger import print_ledger, summary
from hushmq.calibrator.ledger.ledger_report import read_ledger
from hushmq.calibrator.ledger.verify_ledger import verify
from tests.calibrator.site import NARROW, STREAM, WIDE, Desk, desk, policy, sqlite

NARROW_START = Assumption(start=theta_message(NARROW), floor=theta_message(NARROW))


def fill(here: Desk, windows: int) -> None:
    for number in range(windows):
        here.window(number)
        here.cohort.close_due()


def test_windows_keep_the_budget_for_the_undecided(tmp_path: Path) -> None:
    """With a Θ whose spread leaves room both budgets hold, every check passes, and both numbers are one."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(adversary="undecided", theta=NARROW_START))
        fill(here, 4)
        assert here.cohort.released == 4
        (state,) = here.cohort.ledger_states()
        assert state.adversary == "undecided"
        for account in (state.operator, state.public):
            assert 0 < account.loss <= account.budget
            assert account.undecided == account.loss
        with here.engine.connect() as db:
            assert all(check.passed for check in verify(db, STREAM))


def test_its_number_stands_beside_the_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message, the report and the JSON have the price of the same history for the undecided adversary."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        fill(here, 3)
        (state,) = here.cohort.ledger_states()
        with here.engine.connect() as db:
            ledger = read_ledger(db, STREAM)
    assert state.operator.undecided == pytest.approx(state.operator.loss + WIDE.odds_spread, rel=1e-9)
    assert state.public.undecided == pytest.approx(state.public.loss + WIDE.odds_spread, rel=1e-9)
    assert (ledger.undecided.operator, ledger.undecided.public) == (
        state.operator.undecided,
        state.public.undecided,
    )
    assert summary(ledger)["public"]["undecided"] == state.public.undecided
    print_ledger(ledger, 0)
    printed = capsys.readouterr().out
    assert f"{state.operator.undecided:.4f}" in printed
    assert f"the long-run odds differ by {WIDE.odds_spread:.4f}" in printed
