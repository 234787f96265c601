"""Which epochs begin with a new policy: evidence, beliefs and accounts belong to one meaning of a stream's states.

Where a policy changes the meaning, or ops raise the number of the epoch, all that was learned is dropped and learned
anew from the policy's start. Where it only widens Θ so far that the past is over budget, that is a contradiction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import Connection, delete, select

from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.messages import EpochReason, NoiseSetting
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.calibrator.learning.learn_window import forget_stream
from hushmq.calibrator.learning.stream_theta import theta_of_stream
from hushmq.calibrator.ledger.begin_epoch import begin_epochs, write_first
from hushmq.calibrator.ledger.begun_epoch import BegunEpoch, accounts_now, begun_epoch
from hushmq.calibrator.ledger.contradicted_epoch import end_contradicted_epoch
from hushmq.calibrator.ledger.epochs import read_epochs
from hushmq.calibrator.ledger.joined_account import account_theta, hull
from hushmq.calibrator.ledger.quiet_tick import first_quiet_tick
from hushmq.calibrator.store.tables import roster, setting
from hushmq.pufferfish.protocols import Theta


def check_epoch_numbers(db: Connection, policy: Policy) -> None:
    """Rejected if the policy lowers the number of a stream's epoch."""
    for name, stream in policy.streams.items():
        highest = read_epochs(db, name).current.ops
        if stream.epoch < highest:
            raise Rejected(
                Reason.STALE_VERSION, f"{name}: epoch {stream.epoch} is below {highest}, and it only rises"
            )


def begin_epochs_of_policy(
    db: Connection,
    before: Policy | None,
    old: Mapping[str, StreamPolicy],
    policy: Policy,
    first_tick: Callable[[StreamPolicy], int],
) -> list[BegunEpoch]:
    """Begin the epochs that the policy is a reason for, within the transaction that follows it.

    `before` is the policy followed until then, `old` are the streams of the last one, also if nothing followed it;
    `first_tick` is the first that can carry a new setting. The streams of one account begin theirs together.
    """
    begun: list[BegunEpoch] = []
    for name, stream in policy.streams.items():
        write_first(db, name, old.get(name, stream), version=policy.version)
    for members in dict.fromkeys(one.members for one in priced_streams(policy).values()):
        own = {name: _reason(db, name, policy.streams[name]) for name in members}
        reason = next((one for one in own.values() if one is not None), None)
        first = max(first_tick(policy.streams[name]) for name in members)
        if reason is not None and policy.first_devices:
            raise Rejected(
                Reason.POLICY_MISMATCH,
                f"{members[0]}: what its states mean changes for all devices at once: name no first_devices",
            )
        if reason is not None:
            theta = hull(_theta_at_end(db, name, before, policy.streams[name]) for name in members)
            for name, mine in own.items():
                if mine is not None:
                    forget_stream(db, name)
                    _readmit(db, name)
            epochs = begin_epochs(
                db,
                members,
                policy,
                first=first_quiet_tick(accounts_now(db, members[0], policy), first),
                reasons={name: mine or reason for name, mine in own.items()},
                ended_theta=theta,
            )
            begun += [begun_epoch(db, name, policy, epoch) for name, epoch in epochs.items()]
        known = next((name for name in members if before is not None and name in before.streams), None)
        if reason is None and before is not None and known is not None:
            accounts = accounts_now(db, known, before)
            begun += end_contradicted_epoch(db, known, policy, before=accounts, first=first)
    return begun


def _reason(db: Connection, name: str, stream: StreamPolicy) -> EpochReason | None:
    """Why the policy begins a new epoch of this stream; None if it does not."""
    current = read_epochs(db, name).current
    if current.meaning != stream.meaning:
        return "meaning"
    return "ops" if stream.epoch > current.ops else None


def _readmit(db: Connection, stream: str) -> None:
    """Let devices back on the roster that were left out for what they sent before: their next batch admits them."""
    db.execute(delete(roster).where(roster.c.stream == stream, roster.c.left_out.is_not(None)))


def _theta_at_end(db: Connection, name: str, before: Policy | None, stream: StreamPolicy) -> Theta:
    """The Θ of its account until now; of a stream that comes back, the one that its last setting was issued for."""
    if before is not None and name in before.streams:
        return account_theta(db, before.streams, priced_streams(before)[name])
    row = db.execute(
        select(setting.c.payload)
        .where(setting.c.stream == name, setting.c.device.is_(None))
        .order_by(setting.c.version.desc())
        .limit(1)
    ).first()
    if row is None:  # nothing was ever published of it
        return theta_of_stream(db, name, stream)
    theta: Theta = Signed[NoiseSetting].model_validate_json(row.payload).message.theta.chains
    return theta
