"""Both audiences' accounts of one stream under one policy and one learned Θ, kept up to date with the database.

They stand on a basis: the policy's version, the last theta update, and the epochs. When that changes they are
replaced, since all of history must be priced again (calibrator/ledger/accounts.py); until then they follow new ledger
entries and settings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from hushmq.broker.contract.account_share import group_of, priced_streams
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.calibrator.ledger.audience_timelines import finite_price
from hushmq.calibrator.ledger.debits import Debit
from hushmq.calibrator.ledger.device_bounds import DeviceBounds
from hushmq.calibrator.ledger.device_exposure import UNPROVED, DeviceExposure
from hushmq.calibrator.ledger.epochs import LAST_TICK, Epochs, PricedEpoch, read_epochs
from hushmq.calibrator.ledger.issued_noise import IssuedNoise
from hushmq.calibrator.ledger.joined_account import JoinedAccount, account_device_thetas, account_theta
from hushmq.calibrator.ledger.operator_account import operator_price
from hushmq.calibrator.ledger.public_account import ProposedDebit, PublicAccount
from hushmq.calibrator.ledger.window_allowance import LARGEST_TILT, allowed
from hushmq.calibrator.ledger.window_spending import Spending, share_of_window
from hushmq.calibrator.policy.device_tilt import largest_device_tilt
from hushmq.calibrator.roster.left_out import left_out_of_all
from hushmq.pufferfish.protocols import Noise, Region, Theta
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.window_method import Method


class UndecidedLosses(NamedTuple):
    """Both audiences' losses to the undecided adversary."""

    operator: float
    public: float


@dataclass(frozen=True, slots=True)
class EndedLoss:
    """An ended epoch, and what its ticks have lost to each audience."""

    epoch: PricedEpoch
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
    left_out: frozenset[str] = frozenset()
    """Devices that no window counts any more: what they have lost is theirs, and stops nobody else's releases."""
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
        left_out: frozenset[str] = frozenset(),
    ) -> LiveAccounts:
        """Accounts with an empty table of bounds, for the settings in `issued`."""
        accounts = cls(
            stream, policy, public, device_thetas, issued, DeviceBounds(policy, public.device_tilt), left_out
        )
        accounts._expose(issued.by_device)
        return accounts

    @property
    def theta(self) -> Theta:
        """The learned Θ of the cohort."""
        return self.public.theta

    @property
    def epochs(self) -> Epochs:
        """The epochs of the account: their ticks and Θ. What they say of settings is in the stream's own."""
        return self.public.epochs if self.joint is None else self.joint.epochs

    @property
    def own_epochs(self) -> Epochs:
        """The epochs of this stream."""
        return self.public.epochs

    @property
    def counted(self) -> list[DeviceExposure]:
        """The exposures of the devices that windows count."""
        return [one for device, one in self.exposures.items() if device not in self.left_out]

    @property
    def sharing(self) -> tuple[str, ...]:
        """The streams that share the account, this one among them."""
        return (self.stream,) if self.joint is None else tuple(one.stream for one in self.joint.members)

    def with_groups(self, devices: Mapping[str, Region]) -> dict[str, Region]:
        """The same for every device of the same groups: their states are taken to be one."""
        if self.joint is None:
            return dict(devices)
        return {mate: region for device, region in devices.items() for mate in self.joint.group_of(device)}

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
        for exposure in self.counted:
            tilt = self.bounds.allowance(exposure, method, tilt)
        return tilt

    def cohort_allowance(self, method: Method, noises: Iterable[Noise]) -> float:
        """The same for devices without device-specific settings."""
        return allowed(self.policy, method, self.theta, noises, LARGEST_TILT, self.public.device_tilt)

    def spending(self, window: str, scope: str, noises: Iterable[Noise]) -> Spending:
        """What one window may spend so that the whole tumbling sequence keeps the public budget for ever."""
        tilt = self.allowance(self.policy.windows[window].method, noises)
        return share_of_window(self.policy, window, scope, tilt)

    def planned_tilt(self, noises: Collection[Noise]) -> int:
        """The tilt, in nano-nats, that a sanitized state has when all windows over it are released behind these noises.

        Under the present Θ.
        """
        return sum(
            self.spending(name, scope, noises).tilt
            for name, window in self.policy.windows.items()
            for scope in window.scopes
        )

    def precompute(self, device: str) -> None:
        """Pre-compute the bounds of a device with device-specific settings."""
        exposure = self.exposures[device]
        methods: set[Method] = {window.method for window in self.policy.windows.values()}
        self.bounds.precompute(
            exposure,
            tilt=self.public.largest_true_tilt(exposure.device_noises),
            allowances={method: self.cohort_allowance(method, self.issued.cohort) for method in methods},
        )

    def prices_if(self, proposed: ProposedDebit, later: Entry | None = None) -> list[Price]:
        """The prices of the whole account with a debit of this stream: the current epoch's, and each ended one's.

        `later` is what this stream is to release after it; the others of its account as much by their shares.
        """
        if self.joint is None:
            return proposed.prices_if(later)
        if later is None:
            return self.joint.prices(proposed.rises)
        parts = self.policy.tilt_share * self.joint.devices
        all_later = Entry(later.first, later.last, later.tau0 / parts, later.tau1 / parts)
        return self.joint.prices([*proposed.rises, all_later])

    def ended_prices(self) -> list[Price]:
        """The price of each ended epoch."""
        return self.public.ended_prices() if self.joint is None else self.joint.prices()[1:]

    def loss_from(self, tick: int) -> float:
        """The largest public loss of any device at this tick or later, of what is released so far, under its Θ."""
        ticks = tick, LAST_TICK
        if self.exposures or self.joint is not None:
            return self._loss_behind_all(self.theta, ticks)
        return self._priced(self.theta, self.public.held(), ticks)

    def exposed_tilts(self, proposed: ProposedDebit) -> Iterator[tuple[str, Theta, float]]:
        """Every device with device-specific settings, its Θ, and the largest tilt of a tick with the debit."""
        if self.joint is not None:
            yield from self.joint.exposed_tilts((self, proposed))
            return
        for one in self.counted:
            yield one.device, one.theta, self.public.largest_true_tilt(one.device_noises, proposed.debit)

    def exposed_losses(self, proposed: ProposedDebit) -> Iterator[tuple[str, float]]:
        """Every device whose public loss in the current epoch may exceed the budget with the debit, and that loss."""
        adversary = self.policy.adversary
        together: float | None = None
        for device, theta, tilt in self.exposed_tilts(proposed):
            if self.bounds.keeps_public(theta, tilt):
                continue
            loss = min(UNPROVED, theta.constant_loss(tilt, tilt, adversary, stride=self.policy.stride))
            if self.epochs.ended:
                # What ended epochs tilt most is no bound for the current one: the exact loss is.
                if together is None:
                    together = self._loss_behind_all(self.theta, self.epochs.ticks, proposed)
                loss = min(loss, together if self.theta.contains(theta) else loss)
            yield device, loss

    def _loss_behind_all(
        self, theta: Theta, ticks: Ticks | None, proposed: ProposedDebit | None = None
    ) -> float:
        """The public loss of a device that had the settings of all devices: no device's is larger under this Θ."""
        if self.joint is not None:
            of_this = None if proposed is None else (self, proposed)
            return self.joint.loss_behind_all(theta, ticks, of_this)
        entries = self.true_tilts_behind_all(None if proposed is None else proposed.debit)
        return self._priced(theta, entries, ticks)

    def _priced(self, theta: Theta, entries: Iterable[Entry], ticks: Ticks | None) -> float:
        history = theta.timeline(self.policy.adversary, entries, ticks, stride=self.policy.stride)
        return finite_price(history).epsilon

    def true_tilts_behind_all(self, debit: Debit | None = None) -> list[Entry]:
        """The tilts of the true states of a device that had the settings of all devices."""
        noises = [noise for one in self.exposures.values() for noise in one.device_noises]
        return self.public.true_tilts(noises, debit)

    def public_loss(self) -> float:
        """The largest public loss of any device that windows count, at a tick of the current epoch."""
        if self.joint is not None:
            return self.joint.public_loss()
        loss, budget = self.public.price().epsilon, self.policy.epsilon.public
        bounds = [
            (one, self.bounds.public_loss(one, self.public.largest_true_tilt(one.device_noises)))
            for one in self.counted
        ]
        if self.epochs.ended and any(bound > budget for _, bound in bounds):
            together = self._loss_behind_all(self.theta, self.epochs.ticks)
            bounds = [
                (one, min(bound, together) if self.theta.contains(one.theta) else bound)
                for one, bound in bounds
            ]
        return max([loss, *(bound for _, bound in bounds)])

    def operator_loss(self, db: Connection) -> float:
        """The largest operator loss of any device that is not left out, at a tick of the current epoch."""
        if self.joint is not None:
            return self.joint.operator_loss(db)
        adversary, budget = self.policy.adversary, self.policy.epsilon.operator
        price = partial(
            operator_price,
            db,
            self.stream,
            self.epochs,
            self.epochs.current,
            adversary=adversary,
            stride=self.policy.stride,
        )
        loss = price(theta=self.theta)
        for one in self.counted:
            bound = self.bounds.operator_loss(one)
            if bound > budget:  # only then is the device's exact timeline worth its price
                bound = min(bound, price(theta=one.theta, device=one.device))
            loss = max(loss, bound)
        return loss

    def ended_losses(self, db: Connection) -> list[EndedLoss]:
        """What the ticks of each ended epoch have lost, under the Θ it ended with.

        Where Θ was contradicted, devices with device-specific settings are priced as if each had had those of all.
        Elsewhere they kept their budget while the epoch lasted, under the Θ of each.
        """
        found = []
        exposed = any(one.exposures for one in ((self,) if self.joint is None else self.joint.members))
        for one, price in zip(self.epochs.ended, self.ended_prices(), strict=True):
            public = price.epsilon
            of_all = one.ended_by != "meaning" and exposed
            if self.joint is not None:
                operator = self.joint.ended_operator_loss(db, one, of_all=of_all)
            else:
                operator = operator_price(
                    db,
                    self.stream,
                    self.epochs,
                    one.epoch,
                    theta=one.theta,
                    adversary=self.policy.adversary,
                    of_all=of_all,
                    stride=self.policy.stride,
                )
            if of_all:
                public = max(public, self._loss_behind_all(one.theta, one.ticks))
            found.append(EndedLoss(one, operator, public))
        return found

    def undecided_losses(self, db: Connection) -> UndecidedLosses:
        """The largest losses of any device to the undecided adversary, whatever adversary the budgets are for."""
        if self.policy.adversary == "undecided":
            return UndecidedLosses(self.operator_loss(db), self.public_loss())
        if self.joint is not None:
            return UndecidedLosses(
                self.joint.operator_loss(db, "undecided"), self.joint.public_loss("undecided")
            )
        operator = operator_price(
            db,
            self.stream,
            self.epochs,
            self.epochs.current,
            theta=self.theta,
            adversary="undecided",
            stride=self.policy.stride,
        )
        public = self.public.price_against("undecided").epsilon
        undecided = self.policy.model_copy(update={"adversary": "undecided"})
        for one in self.counted:
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
    odd = left_out_of_all(db, priced[stream].members)
    members = []
    for member in priced[stream].members:
        own = priced[member].policy
        epochs, tilt = read_epochs(db, member), largest_device_tilt(db, member)
        public = PublicAccount(theta, own.adversary, tilt, epochs, stride=own.stride)
        one = LiveAccounts.under(member, own, public, device_thetas, IssuedNoise(member), odd)
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
    epochs = read_epochs(db, stream)
    public = PublicAccount(
        theta, policy.adversary, largest_device_tilt(db, stream), epochs, stride=policy.stride
    )
    accounts = LiveAccounts.under(stream, policy, public, device_thetas or {}, IssuedNoise(stream))
    accounts.follow(db)
    return accounts
