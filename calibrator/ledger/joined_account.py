"""The account that several streams, or several devices, share: their tilts are added tick by tick and priced once.

What the streams of one account publish is about one state, as far as anyone knows who has not been told that they are
independent. Given the states, their noise is independent, so the likelihoods multiply and the tilts of one tick add
(docs/theory-world.md, Theorem 22): each stream's tilt of true states is amplified through its own noise first, then the
tilts are summed over the streams and devices of the account, and priced under the hull of their Θ.

Here the account is priced as it stands; how each stream keeps to its part of it: broker/contract/account_share.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from hushmq.broker.contract.account_share import PricedStream
from hushmq.broker.contract.messages import SharedBy
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.learning.stream_theta import theta_of_stream, thetas_of_devices
from hushmq.calibrator.ledger.audience_timelines import finite_price
from hushmq.calibrator.ledger.device_exposure import UNPROVED
from hushmq.calibrator.ledger.epochs import LAST_TICK, Epoch, Epochs, PricedEpoch
from hushmq.calibrator.ledger.joint_timelines import JointTimelines
from hushmq.calibrator.ledger.operator_account import epoch_ticks, epoch_timeline
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks

if TYPE_CHECKING:
    from hushmq.calibrator.ledger.live_accounts import LiveAccounts
    from hushmq.calibrator.ledger.public_account import ProposedDebit


@dataclass(frozen=True, slots=True)
class JoinedAccount:
    """The accounts of the streams that are priced together, and who else shares them."""

    members: tuple[LiveAccounts, ...]
    devices: int
    """How many devices the largest group has: as many carry the cohort's settings about one state."""
    group_of: Callable[[str], Sequence[str]]
    """The devices of a device's group, itself among them."""
    priced: JointTimelines = field(default_factory=JointTimelines, compare=False, repr=False)
    """What all streams have released, as it was priced last."""

    @property
    def theta(self) -> Theta:
        return self.members[0].theta

    @property
    def epochs(self) -> Epochs:
        """The epochs of the account: those of the stream whose current one began last; they begin together."""
        return max((one.public.epochs for one in self.members), key=lambda one: one.current.first)

    def follow(self, db: Connection) -> None:
        """Read new ledger entries and settings of all streams."""
        for one in self.members:
            one.follow_own(db)

    @property
    def shared_by(self) -> SharedBy:
        """Whose account it is, for readers of its loss."""
        return SharedBy(streams=tuple(one.stream for one in self.members), devices=self.devices)

    def prices(self, further: Iterable[Entry] = ()) -> list[Price]:
        """The price of what all streams have released, and more, at the current epoch's ticks and each ended one's."""
        adversary, epochs, more = self.members[0].policy.adversary, self.epochs, list(further)
        return [
            self._price(theta, ticks, adversary, more)
            for theta, ticks in [
                (self.theta, epochs.ticks),
                *((one.theta, one.ticks) for one in epochs.ended),
            ]
        ]

    def _price(
        self, theta: Theta, ticks: Ticks | None, adversary: Adversary, further: Iterable[Entry] = ()
    ) -> Price:
        """The price of what all streams have released, and more, if each device of the largest group has it."""

        def held() -> list[Entry]:
            return list(times(self.devices, (entry for one in self.members for entry in one.public.held())))

        followed = tuple(one.public.followed for one in self.members)
        return self.priced.price(followed, held, theta, ticks, adversary, times(self.devices, further))

    def loss_behind_all(
        self, theta: Theta, ticks: Ticks | None, proposed: tuple[LiveAccounts, ProposedDebit] | None = None
    ) -> float:
        """The public loss of a group whose devices all had the settings of all devices."""
        entries = [
            entry
            for one in self.members
            for entry in one.true_tilts_behind_all(
                proposed[1].debit if proposed is not None and proposed[0] is one else None
            )
        ]
        return joint_price(entries, theta, self.members[0].policy.adversary, self.devices, ticks).epsilon

    def exposed_tilts(
        self, proposed: tuple[LiveAccounts, ProposedDebit] | None = None
    ) -> Iterator[tuple[str, Theta, float]]:
        """Every device with device-specific settings, its Θ, and the largest tilt of any tick by all of its group."""
        for device in self._counted():
            parts: list[Entry] = []
            for mate in self.group_of(device):
                for one in self.members:
                    debit = proposed[1].debit if proposed is not None and proposed[0] is one else None
                    noises = one.issued.by_device.get(mate, ())
                    parts += one.public.true_tilts(noises, debit)
            yield device, self._theta_of(device), largest_sum(parts)

    def public_loss(self, against: Adversary | None = None) -> float:
        """The largest public loss of any device and its group, to the policy's adversary or to another."""
        adversary, epochs = against or self.members[0].policy.adversary, self.epochs
        loss = self._price(self.theta, epochs.ticks, adversary).epsilon
        together: float | None = None
        for _, theta, tilt in self.exposed_tilts():
            bound = min(UNPROVED, theta.constant_loss(tilt, tilt, adversary))
            if bound > loss and epochs.ended and self.theta.contains(theta):
                # What ended epochs tilt most is no bound for the current one.
                if together is None:
                    together = self.loss_behind_all(self.theta, epochs.ticks)
                bound = min(bound, together)
            loss = max(loss, bound)
        return loss

    def operator_loss(self, db: Connection, against: Adversary | None = None) -> float:
        """The largest loss of any device and its group to whoever reads the sanitized streams."""
        policy = self.members[0].policy
        adversary = against or policy.adversary
        current = self.epochs.current
        ticks = self._operator_ticks(db, current)
        loss = joint_price(self._read(db, current), self.theta, adversary, self.devices, ticks).epsilon
        for device in self._counted():
            theta, group = self._theta_of(device), self.group_of(device)
            bound = min(UNPROVED, theta.constant_loss(*self._largest_tilts(group), adversary))
            if bound > policy.epsilon.operator:  # only then is the exact timeline worth its price
                exact = [entry for mate in group for entry in self._read(db, current, mate)]
                bound = min(bound, finite_price(theta.timeline(adversary, exact, ticks)).epsilon)
            loss = max(loss, bound)
        return loss

    def _counted(self) -> list[str]:
        """The devices with device-specific settings that windows count."""
        return sorted({name for one in self.members for name in one.exposures.keys() - one.left_out})

    def ended_operator_loss(self, db: Connection, one: PricedEpoch, *, of_all: bool) -> float:
        """What the ticks of an ended epoch have lost to whoever reads the sanitized streams.

        Of devices that had the cohort's settings, or those of all devices.
        """
        adversary, ticks = self.members[0].policy.adversary, self._operator_ticks(db, one.epoch)
        entries = self._read(db, one.epoch, of_all=of_all)
        return joint_price(entries, one.theta, adversary, self.devices, ticks).epsilon

    def _read(
        self, db: Connection, epoch: Epoch, device: str | None = None, *, of_all: bool = False
    ) -> list[Entry]:
        """The tilts of all sanitized streams, for the states as they were meant in this epoch of the account."""
        return [
            entry
            for one in self.members
            for entry in epoch_timeline(
                db, one.stream, one.public.epochs, one.public.epochs.at(epoch.first), device, of_all=of_all
            )
        ]

    def _operator_ticks(self, db: Connection, epoch: Epoch) -> Ticks | None:
        """The ticks at which settings of this epoch were used, of any stream."""
        epochs = self.epochs
        if not epochs.ended:
            return None
        found = [
            epoch_ticks(db, one.stream, one.public.epochs, one.public.epochs.at(epoch.first))
            for one in self.members
        ]
        ticks = [one for one in found if one is not None] or [(epoch.first, LAST_TICK)]
        same_meaning = all(one.public.epochs.keeps_meaning(epoch.first) for one in self.members)
        first = (max if same_meaning else min)(first for first, _ in ticks)
        last = LAST_TICK if epoch == epochs.current else max(first - 1, *(last for _, last in ticks))
        return first, last

    def _largest_tilts(self, group: Sequence[str]) -> tuple[float, float]:
        """The sum, over the streams and devices of a group, of the largest tilts that each can carry."""
        found = [0.0, 0.0]
        for mate in group:
            for one in self.members:
                noises = one.issued.noises_of(mate)
                for side in (0, 1):
                    largest = max((noise.tilts[side] for noise in noises), default=0.0)
                    found[side] += largest + one.public.device_tilt / NANO
        return found[0], found[1]

    def _theta_of(self, device: str) -> Theta:
        return self.members[0].device_thetas.get(device, self.theta)


def joint_price(
    entries: Iterable[Entry],
    theta: Theta,
    adversary: Adversary,
    devices: int,
    ticks: Ticks | None = None,
    *,
    stride: int = 1,
) -> Price:
    """The price of the tilts of all streams of an account, at some ticks, if each of so many devices has them."""
    return finite_price(theta.timeline(adversary, times(devices, entries), ticks, stride=stride))


def times(devices: int, entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries, if each of so many devices has them."""
    return (Entry(one.first, one.last, devices * one.tau0, devices * one.tau1) for one in entries)


def account_theta(db: Connection, streams: Mapping[str, StreamPolicy], priced: PricedStream) -> Theta:
    """The Θ that prices a stream: the hull of what is learned of all streams of its account."""
    return hull(theta_of_stream(db, member, streams[member]) for member in priced.members)


def account_device_thetas(
    db: Connection,
    streams: Mapping[str, StreamPolicy],
    priced: PricedStream,
    group_of: Callable[[str], Sequence[str]],
) -> Mapping[str, Theta]:
    """Θ of every device with evidence of its own in a stream of the account, together with its group's.

    A device, or a stream of it, that has no evidence has the cohort's.
    """
    own = {one: thetas_of_devices(db, one, streams[one]) for one in priced.members}
    if priced.alone:
        return own[priced.name]
    cohort = {one: theta_of_stream(db, one, streams[one]) for one in priced.members}
    return {
        device: hull(
            own[member].get(mate, cohort[member]) for mate in group_of(device) for member in priced.members
        )
        for device in sorted({device for found in own.values() for device in found})
    }


def hull(thetas: Iterable[Theta]) -> Theta:
    """The smallest Θ of the same form that contains all of these: one at least, of one model."""
    values: list[Any] = list(thetas)
    found: Theta = reduce(lambda one, other: one.hull(other), values)
    return found


def largest_sum(entries: Sequence[Entry]) -> float:
    """The largest sum of the tilts of any one tick, in the direction in which it is larger."""
    changes: dict[int, list[float]] = {}
    for one in entries:
        tau = max(one.tau0, one.tau1)
        changes.setdefault(one.first, []).append(tau)
        changes.setdefault(one.last + 1, []).append(-tau)
    ordered = [change for _, found in sorted(changes.items()) for change in sorted(found)]
    return max(accumulate(ordered), default=0.0)
