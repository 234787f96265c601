"""The way on after a contradiction: the epoch ends, what it lost is stated, and the next goes on under the wider Θ.

Once the learned Θ is contradicted, the stream's past is priced under a wider one. Where it is over budget then, the
promise did not hold for those ticks, and nothing that follows can mend it. What follows can be kept within the budget:
the next epoch begins after the window that showed it, its ticks are priced with all that was published before, and
windows over them are released within what that leaves (docs/theory-world.md, Theorem 20). A policy may ask that the
stream stops instead, until ops raise the number of its epoch.
"""

from __future__ import annotations

from sqlalchemy import Connection

from hushmq.broker.contract.policy_message import Policy
from hushmq.calibrator.ledger.begin_epoch import begin_epochs
from hushmq.calibrator.ledger.begun_epoch import (
    BegunEpoch,
    accounts_now,
    begun_epoch,
    over_budget,
    widened,
)
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.ledger.quiet_tick import first_quiet_tick


def end_contradicted_epoch(
    db: Connection, stream: str, policy: Policy, *, before: LiveAccounts, first: int
) -> list[BegunEpoch]:
    """Begin the next epoch at tick `first` if Θ is wider than that of `before` and puts the current one over budget.

    Of every stream that shares the account, within the transaction in which Θ has changed. None without a reason, or
    where the policy wants the stream to stop.
    """
    if policy.streams[stream].after_contradiction == "stop":
        return []
    now = accounts_now(db, stream, policy)
    if not widened(before, now.theta, now.device_thetas) or not over_budget(db, now):
        return []
    members = [stream] if now.joint is None else [one.stream for one in now.joint.members]
    first = first_quiet_tick(now, first)
    begun = begin_epochs(
        db,
        members,
        policy,
        first=first,
        reasons=dict.fromkeys(members, "contradiction"),
        ended_theta=now.theta,
    )
    return [begun_epoch(db, name, policy, epoch) for name, epoch in begun.items()]
