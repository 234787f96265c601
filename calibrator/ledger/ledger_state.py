"""The message that says how a stream's ledger stands: both accounts, the misfit, and the sealed high-water mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from hushmq.broker.contract.messages import MOST_ENDED, Account, EndedEpoch, LedgerState, Misfit
from hushmq.calibrator.ledger.high_water_mark import HighWaterMarks
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.store.tick_counts import late_ticks

if TYPE_CHECKING:
    from hushmq.calibrator.models.misfit import Band


def ledger_state(
    db: Connection, accounts: LiveAccounts, marks: HighWaterMarks, worst: Band | None
) -> LedgerState:
    """How the ledger stands. A stream is stopped behind its high-water mark, or over its public budget.

    Both accounts are those of the current epoch; what the ticks of ended ones have lost is stated beside them.
    """
    stream, policy = accounts.stream, accounts.policy
    budgets = policy.epsilon
    public, operator = accounts.public_loss(), accounts.operator_loss(db)
    undecided = accounts.undecided_losses(db)
    theta = model_of(policy).theta_message(accounts.theta)
    sealed = marks.sealed(db, stream)
    stopped = marks.stopped.get(stream)
    if stopped is None and public > budgets.public:
        stopped = (
            f"the public loss is {public:.4f} under the learned Θ, of {budgets.public:g}: "
            f"a policy with epoch = {policy.epoch + 1} goes on in a new epoch"
        )
    return LedgerState(
        stream=stream,
        adversary=policy.adversary,
        entries=sealed.entries,
        operator=Account(
            budget=budgets.operator,
            loss=operator,
            left=budgets.operator - operator,
            theta=theta,
            undecided=undecided.operator,
        ),
        public=Account(
            budget=budgets.public,
            loss=public,
            left=budgets.public - public,
            theta=theta,
            undecided=undecided.public,
        ),
        late=late_ticks(db, stream),
        stopped=stopped,
        misfit=None
        if worst is None
        else Misfit(
            first=worst.first,
            last=worst.last,
            seen=worst.seen,
            fitted=worst.fitted,
            covered=policy.misfit == "cover",
        ),
        epoch=accounts.epochs.current.number,
        ended=_published(ended_epochs(db, accounts), accounts),
        head=sealed.head,
        seal=sealed.seal,
        account=None if accounts.joint is None else accounts.joint.shared_by,
    )


def ended_epochs(db: Connection, accounts: LiveAccounts) -> list[EndedEpoch]:
    """All epochs that have ended, and what their ticks have lost."""
    return [
        EndedEpoch(
            number=one.epoch.number,
            first=one.epoch.ticks[0],
            last=max(one.epoch.ticks),
            reason=one.epoch.ended_by,
            operator=one.operator,
            public=one.public,
        )
        for one in accounts.ended_losses(db)
    ]


def _published(ended: Sequence[EndedEpoch], accounts: LiveAccounts) -> tuple[EndedEpoch, ...]:
    """The ended epochs; of too many for a message, those that have lost most, and the newest."""
    budgets, newest = accounts.policy.epsilon, accounts.epochs.current.number - 1
    most = sorted(
        ended,
        key=lambda one: (
            one.number != newest,
            -max(one.operator - budgets.operator, one.public - budgets.public),
        ),
    )[:MOST_ENDED]
    return tuple(sorted(most, key=lambda one: one.number))
