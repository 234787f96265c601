"""The accounts of a cohort's streams, each on the basis of the policy followed and the last theta update.

The Θ that prices is never stored: it is computed from the stored confidence sequence and the policy whenever accounts
are opened, so that it cannot disagree with either.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.learning.learning_progress import Progress, read_progress
from hushmq.calibrator.learning.stream_theta import misfit_of_stream
from hushmq.calibrator.ledger.epochs import Epochs, read_epochs
from hushmq.calibrator.ledger.issued_noise import IssuedNoise
from hushmq.calibrator.ledger.joined_account import JoinedAccount, account_device_thetas, account_theta
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.ledger.public_account import PublicAccount
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.policy.device_tilt import largest_device_tilt
from hushmq.calibrator.policy.follow_policy import FollowedPolicy
from hushmq.calibrator.roster.left_out import left_out_of_all
from hushmq.pufferfish.protocols import Theta

if TYPE_CHECKING:
    from hushmq.calibrator.models.misfit import Band


@dataclass(frozen=True, slots=True)
class Basis:
    """What a stream's accounts stand on: the policy's version, the last theta updates, Θ, the epochs, who is left out.

    There is an update for each stream of the account, and its epochs; Θ is the hull of theirs.
    """

    policy: int
    updates: tuple[Progress, ...]
    theta: Theta
    epochs: tuple[Epochs, ...]
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Open:
    """Accounts, and the basis they were opened on."""

    basis: Basis
    accounts: LiveAccounts


@dataclass(frozen=True, slots=True)
class _Measured:
    """The misfit in the evidence of a theta update, if there was enough of it."""

    update: Progress
    worst: Band | None


@dataclass(slots=True)
class Accounts:
    """Owns the accounts of all streams. Another calibrator may work on the same database: each use reads the basis."""

    followed: FollowedPolicy
    _open: dict[str, _Open] = field(default_factory=dict)
    _misfits: dict[str, _Measured] = field(default_factory=dict)

    def basis(self, db: Connection, stream: str) -> Basis:
        """What accounts opened now would stand on."""
        priced = self.followed.priced[stream]
        return Basis(
            self.followed.version,
            tuple(read_progress(db, member).at_last_update for member in priced.members),
            account_theta(db, self.followed.streams, priced),
            tuple(read_epochs(db, member) for member in priced.members),
            left_out_of_all(db, priced.members),
        )

    def open(self, db: Connection, stream: str) -> LiveAccounts:
        """The stream's accounts, up to date with the database; new ones where their basis has changed."""
        priced, basis = self.followed.priced[stream], self.basis(db, stream)
        if priced.alone:
            found = self._opened(db, stream, basis)
        else:
            members = tuple(self._opened(db, member, basis) for member in priced.members)
            joint = JoinedAccount(members, priced.devices, self.followed.group_of)
            for one in members:
                one.joint = joint
            (found,) = (one for one in members if one.stream == stream)
        found.follow(db)
        return found

    def reset(self) -> None:
        """Forget what is open: the accounts are read anew from the database."""
        self._open.clear()
        self._misfits.clear()

    def _opened(self, db: Connection, stream: str, basis: Basis) -> LiveAccounts:
        """The accounts of one stream on this basis, which it shares with the other streams of its account."""
        last = self._open.get(stream)
        if last is None or last.basis != basis:
            last = self._open[stream] = _Open(basis, self._reopen(db, stream, basis, last))
        return last.accounts

    def _reopen(self, db: Connection, stream: str, basis: Basis, last: _Open | None) -> LiveAccounts:
        """Accounts on another basis; issued noise does not depend on it, the priced history not on the updates."""
        policy, members = self.followed.priced[stream].policy, self.followed.priced[stream].members
        issued = IssuedNoise(stream) if last is None else last.accounts.issued
        if last is not None and replace(last.basis, updates=basis.updates) == basis:
            public = last.accounts.public
        else:
            epochs, tilt = basis.epochs[members.index(stream)], largest_device_tilt(db, stream)
            public = PublicAccount(basis.theta, policy.adversary, tilt, epochs, stride=policy.stride)
        device_thetas = account_device_thetas(
            db, self.followed.streams, self.followed.priced[stream], self.followed.group_of
        )
        return LiveAccounts.under(stream, policy, public, device_thetas, issued, basis.left_out)

    def worst_misfit(self, db: Connection, stream: str, policy: StreamPolicy) -> Band | None:
        """The band of lags with the largest misfit in the evidence of the last theta update; None if there is none.

        Measuring takes a fit, so it is done once for each theta update.
        """
        update = read_progress(db, stream).at_last_update
        measured = self._misfits.get(stream)
        if measured is None or measured.update != update:
            found = misfit_of_stream(db, stream, model_of(policy)) if update.windows else None
            measured = self._misfits[stream] = _Measured(update, found.worst if found else None)
        return measured.worst
