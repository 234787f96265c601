"""Both audiences' accounts of one stream under one policy and one learned Θ, kept up to date with the database.

They stand on a basis: the policy's version and the last theta update. When that changes they are replaced, since all of
history must be priced again (calibrator/ledger/accounts.py); until then they follow new ledger entries and settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection

from hushmq.broker.contract.account_share import group_of, priced_streams
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.calibrator.ledger.audience_timelines import finite_price, operator_timeline
from hushmq.calibrator.ledger.device_bounds import DeviceBounds
from hushmq.calibrator.ledger.device_exposure import DeviceExposure
from hushmq.calibrator.ledger.issued_noise import IssuedNoise
from hushmq.calibrator.ledger.joined_account import JoinedAccount, account_device_thetas, account_theta
from hushmq.calibrator.ledger.public_account import ProposedDebit, PublicAccount
from hushmq.calibrator.ledger.window_allowance import LARGEST_TILT, allowed
from hushmq.calibrator.ledger.window_spending import Spending, share_of_window
from hushmq.calibrator.policy.device_tilt import largest_device_tilt
from hushmq.pufferfish.protocols import Noise, Theta
from hushmq.pufferfish.timeline.entry import Price
from hushmq.pufferfish.window_method import Method


class UndecidedLosses(NamedTuple):
    """Both audiences' losses to the undecided adversary."""

    operator: float
    public: float


@dataclass(slots=True)
class LiveAccounts:
    """The accounts of one stream. `exposures` are those of the devices that have device-specific settings."""

    stream: str
    policy: StreamPolicy
    public: PublicAccount
    device_thetas: Mapping[str, Theta]
    """Θ of every device with enough evidence for one; any other has the cohort's."""
    issued: IssuedNoise
    bounds: DeviceBounds
    exposures: dict[str, DeviceExposure] = field(default_factory=dict)
    joint: JoinedAccount | None = None
    """The account that it shares with other streams or devices; None where it has one of its own."""

    @classmethod
    def under(
        cls,
        stream: str,
        policy: StreamPolicy,
        public: PublicAccount,
        device_thetas: Mapping[str, Theta],
        issued: IssuedNoise,
    ) -> LiveAccounts:
        """Accounts with an empty table of bounds, for the settings in `issued`."""
        accounts = cls(
            stream, policy, public, device_thetas, issued, DeviceBounds(policy, public.device_tilt)
        )
        accounts._expose(issued.by_device)
        return accounts

    @property
    def theta(self) -> Theta:
        """The learned Θ of the cohort."""
        return self.public.theta

    def follow(self, db: Connection) -> None:
        """Read new ledger entries and settings, of every stream that shares the account."""
        if self.joint is not None:
            self.joint.follow(db)
        else:
            self.follow_own(db)

    def follow_own(self, db: Connection) -> None:
        """Read new ledger entries and settings of this stream."""
        self.public.follow(db, self.stream)
        self.follow_settings(db)

    def follow_settings(self, db: Connection) -> None:
        """Read new settings."""
        new = self.issued.follow(db)
        if new.of_cohort:
            self.exposures.clear()
        self._expose(self.issued.by_device if new.of_cohort else new.devices)

    def _expose(self, devices: Iterable[str]) -> None:
        for device in sorted(devices):
            theta = self.device_thetas.get(device, self.theta)
            self.exposures[device] = self.issued.exposure(device, theta)

    def allowance(self, method: Method, noises: Iterable[Noise]) -> float:
        """The largest tilt on sanitized states behind these noises that keeps the public budget for every device."""
        tilt = self.cohort_allowance(method, noises)
        for exposure in self.exposures.values():
            tilt = self.bounds.allowance(exposure, method, tilt)
        return tilt

    def cohort_allowance(self, method: Method, noises: Iterable[Noise]) -> float:
        """The same for devices without device-specific settings."""
        return allowed(self.policy, method, self.theta, noises, LARGEST_TILT, self.public.device_tilt)

    def spending(self, window: str, scope: str, noises: Iterable[Noise]) -> Spending:
        """What one window may spend so that the whole tumbling sequence keeps the public budget for ever."""
        tilt = self.allowance(self.policy.windows[window].method, noises)
        return share_of_window(self.policy, window, scope, tilt)

    def precompute(self, device: str) -> None:
        """Pre-compute the bounds of a device with device-specific settings."""
        exposure = self.exposures[device]
        methods: set[Method] = {window.method for window in self.policy.windows.values()}
        self.bounds.precompute(
            exposure,
            tilt=self.public.largest_true_tilt(exposure.device_noises),
            allowances={method: self.cohort_allowance(method, self.issued.cohort) for method in methods},
        )

    def price_with(self, proposed: ProposedDebit) -> Price:
        """The price of the whole account with a debit of this stream."""
        return proposed.price() if self.joint is None else self.joint.price_with(proposed)

    def exposed_tilts(self, proposed: ProposedDebit) -> Iterator[tuple[str, Theta, float]]:
        """Every device with device-specific settings, its Θ, and the largest tilt of a tick with the debit."""
        if self.joint is not None:
            yield from self.joint.exposed_tilts((self, proposed))
            return
        for one in self.exposures.values():
            yield one.device, one.theta, self.public.largest_true_tilt(one.device_noises, proposed.debit)

    def public_loss(self) -> float:
        """The largest public loss of any device."""
        if self.joint is not None:
            return self.joint.public_loss()
        losses = [
            self.bounds.public_loss(one, self.public.largest_true_tilt(one.device_noises))
            for one in self.exposures.values()
        ]
        return max([self.public.price().epsilon, *losses])

    def operator_loss(self, db: Connection) -> float:
        """The largest loss of any device to whoever reads the sanitized stream."""
        if self.joint is not None:
            return self.joint.operator_loss(db)
        adversary, budget = self.policy.adversary, self.policy.epsilon.operator
        loss = finite_price(self.theta.timeline(adversary, operator_timeline(db, self.stream))).epsilon
        for one in self.exposures.values():
            bound = self.bounds.operator_loss(one)
            if bound > budget:  # only then is the device's exact timeline worth its price
                exact = one.theta.timeline(adversary, operator_timeline(db, self.stream, one.device))
                bound = min(bound, finite_price(exact).epsilon)
            loss = max(loss, bound)
        return loss

    def undecided_losses(self, db: Connection) -> UndecidedLosses:
        """The largest losses of any device to the undecided adversary, whatever adversary the budgets are for."""
        if self.policy.adversary == "undecided":
            return UndecidedLosses(self.operator_loss(db), self.public_loss())
        if self.joint is not None:
            return UndecidedLosses(
                self.joint.operator_loss(db, "undecided"), self.joint.public_loss("undecided")
            )
        whole = self.theta.timeline("undecided", operator_timeline(db, self.stream))
        operator, public = finite_price(whole).epsilon, self.public.price_against("undecided").epsilon
        undecided = self.policy.model_copy(update={"adversary": "undecided"})
        for one in self.exposures.values():
            operator = max(operator, one.operator_loss(undecided, self.public.device_tilt))
            tilt = self.public.largest_true_tilt(one.device_noises)
            public = max(public, one.public_loss(tilt, undecided))
        return UndecidedLosses(operator, public)


def accounts_under(db: Connection, policy: Policy, stream: str) -> LiveAccounts:
    """The accounts of a stream under a policy, with those that share them, before any ledger entry is followed."""
    priced = priced_streams(policy)

    def mates(device: str) -> Sequence[str]:
        return group_of(policy, device)

    theta = account_theta(db, policy.streams, priced[stream])
    device_thetas = account_device_thetas(db, policy.streams, priced[stream], mates)
    members = []
    for member in priced[stream].members:
        own = priced[member].policy
        public = PublicAccount(theta, own.adversary, largest_device_tilt(db, member))
        one = LiveAccounts.under(member, own, public, device_thetas, IssuedNoise(member))
        one.follow_settings(db)
        members.append(one)
    if not priced[stream].alone:
        joint = JoinedAccount(tuple(members), priced[stream].devices, mates)
        for one in members:
            one.joint = joint
    (found,) = (one for one in members if one.stream == stream)
    return found


def read_accounts(
    db: Connection,
    stream: str,
    policy: StreamPolicy,
    *,
    theta: Theta,
    device_thetas: Mapping[str, Theta] | None = None,
) -> LiveAccounts:
    """The accounts as the database has them, with nothing remembered."""
    public = PublicAccount(theta, policy.adversary, largest_device_tilt(db, stream))
    accounts = LiveAccounts.under(stream, policy, public, device_thetas or {}, IssuedNoise(stream))
    accounts.follow(db)
    return accounts
