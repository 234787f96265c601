"""The accounts of a cohort's streams, priced under the Θ believed now, and what is told of them.

Θ is never stored: it is recomputed from the charged statistics whenever it is wanted, so that it cannot disagree
with the evidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import Account as AccountMessage
from hushmq.broker.contract.messages import LedgerState, StreamPolicy
from hushmq.broker.contract.messages import Misfit as MisfitMessage
from hushmq.broker.contract.theta_message import theta_of
from hushmq.calibrator.ingest import count_batches as ingest
from hushmq.calibrator.learning.learn_window import (
    Progress,
    believed,
    believed_of_devices,
    misfit_of_stream,
    progress,
)
from hushmq.calibrator.ledger.audience_timelines import Holder, largest_device_tilt, operator_loss
from hushmq.calibrator.ledger.high_water_mark import Marks
from hushmq.calibrator.ledger.issued_noise import Issued
from hushmq.calibrator.ledger.public_account import Account
from hushmq.calibrator.models.binary.binary_misfit import Band
from hushmq.calibrator.models.chain_model import AnyTheta
from hushmq.calibrator.settings.device_settings import public_loss


@dataclass(slots=True)
class Bookkeeper:
    """Keeps each stream's public account in memory, behind the ledger."""

    marks: Marks
    log: FilteringBoundLogger
    _accounts: dict[str, tuple[StreamPolicy, Account]] = field(default_factory=dict)
    _misfits: dict[str, tuple[Progress, Band | None]] = field(default_factory=dict)
    _issued: dict[str, Issued] = field(default_factory=dict)
    _own: dict[str, tuple[StreamPolicy, Progress, Mapping[str, AnyTheta]]] = field(default_factory=dict)

    def account(self, db: Connection, name: str, stream: StreamPolicy) -> Account:
        """The public account under the Θ believed now: the past is priced anew when Θ has changed, or the policy."""
        theta = believed(db, name, stream)
        under, account = self._accounts.get(name, (None, None))
        if account is None or under is not stream or account.theta != theta:
            account = Account(theta, stream.adversary, largest_device_tilt(db, name))
            self._accounts[name] = stream, account
        account.follow(db, name)
        return account

    def holders(self, db: Connection, name: str, stream: StreamPolicy, theta: AnyTheta) -> tuple[Holder, ...]:
        """The devices with settings of their own, and what is believed of each."""
        return self.issued(db, name).holders(theta, self.own(db, name, stream))

    def issued(self, db: Connection, name: str) -> Issued:
        """The noise of every setting so far."""
        issued = self._issued.setdefault(name, Issued(name))
        issued.follow(db)
        return issued

    def own(self, db: Connection, name: str, stream: StreamPolicy) -> Mapping[str, AnyTheta]:
        """Θ of every device with evidence of its own: it changes at looks alone, and is remembered between them."""
        at = progress(db, name).at_look
        under, last, own = self._own.get(name, (None, None, {}))
        if under is not stream or last != at:
            own = believed_of_devices(db, name, stream)
            self._own[name] = stream, at, own
        return own

    def state(self, db: Connection, name: str, stream: StreamPolicy) -> LedgerState:
        """Both audiences' accounts of a stream."""
        account = self.account(db, name, stream)
        others = self.holders(db, name, stream, account.theta)
        public = public_loss(account, others, stream)
        operator = operator_loss(db, name, stream, account.theta, others)
        sealed = self.marks.sealed(db, name)
        stopped = self.marks.stopped.get(name)
        if stopped is None and public > stream.epsilon.public:
            stopped = (
                f"what was released costs {public:.4f} under Θ now believed, of {stream.epsilon.public:g}"
            )
            self.log.error("over_budget", stream=name, why=stopped)

        def told(budget: float, loss: float) -> AccountMessage:
            return AccountMessage(budget=budget, loss=loss, left=budget - loss, theta=theta_of(account.theta))

        return LedgerState(
            stream=name,
            adversary=stream.adversary,
            entries=sealed.entries,
            operator=told(stream.epsilon.operator, operator),
            public=told(stream.epsilon.public, public),
            late=ingest.late_ticks(db, name),
            stopped=stopped,
            misfit=self._misfit(db, name, stream),
            head=sealed.head,
            seal=sealed.seal,
        )

    def _misfit(self, db: Connection, name: str, stream: StreamPolicy) -> MisfitMessage | None:
        """What the last look found; between looks it is remembered."""
        at = progress(db, name).at_look
        known = self._misfits.get(name)
        if known is None or known[0] != at:
            found = misfit_of_stream(db, name, stream) if at.windows else None
            known = self._misfits[name] = at, found.worst if found else None
        worst = known[1]
        if worst is None:
            return None
        return MisfitMessage(
            first=worst.first,
            last=worst.last,
            seen=worst.seen,
            fitted=worst.fitted,
            covered=stream.misfit == "cover",
        )
