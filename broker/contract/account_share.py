"""Which streams and devices share an account, and what each stream may use of it.

Streams of one device that are neither independent nor coupled are one account: they may follow one state, so that at
every tick their tilts add. The devices of a group are joined in the same way. Each stream of each device has a share of
the account's tilt and keeps to it by itself, whatever the others do (docs/theory-world.md, Theorem 21): a setting is
within the promise if its tilts, divided by the share, cost no more than the account's ε under the account's Θ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from hushmq.broker.contract.messages import SharedBy
from hushmq.broker.contract.policy_message import Assumption, Audiences, Policy, StreamPolicy
from hushmq.broker.contract.theta_message import ThetaMessage, theta_message
from hushmq.pufferfish.coupling import coupled_parts
from hushmq.pufferfish.protocols import Theta


@dataclass(frozen=True, slots=True)
class PricedStream:
    """A stream as its account prices it."""

    name: str
    policy: StreamPolicy
    """With the ε and the Θ of the account, and this stream's share of it on one device."""
    members: tuple[str, ...]
    """The streams of the account, this one among them."""
    devices: int
    """How many devices share the account."""

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if name != self.name)

    @property
    def alone(self) -> bool:
        """Whether nothing else shares its account."""
        return len(self.members) == 1 and self.devices == 1

    @property
    def shared_by(self) -> SharedBy | None:
        """Whose account it is, for readers of its loss; None where it is this stream's alone."""
        return None if self.alone else SharedBy(streams=self.members, devices=self.devices)


def priced_streams(policy: Policy, device: str | None = None) -> dict[str, PricedStream]:
    """Return every stream as its account prices it, for one device or for any device of the cohort.

    What holds for any device is decided by the largest group.
    """
    devices = _devices(policy, device)
    joined = tuple(name for name, one in policy.streams.items() if one.joined)
    shares = _shares({name: policy.streams[name] for name in joined})
    epsilon = _epsilon([one for one in policy.streams.values() if not one.independent])
    found = {}
    for name, own in policy.streams.items():
        members = joined if own.joined else (name,)
        share = (shares[name] if own.joined else own.tilt_share) / devices
        changed: dict[str, Any] = {}
        if not own.independent and epsilon != own.epsilon:
            changed["epsilon"] = epsilon
        if share != own.tilt_share:
            changed["share"] = share
        if len(members) > 1:
            changed["theta"] = _assumption([policy.streams[member].theta for member in members])
        priced = own.model_copy(update=changed) if changed else own
        found[name] = PricedStream(name, priced, members, devices)
    return found


def group_of(policy: Policy, device: str) -> tuple[str, ...]:
    """Return the devices that share accounts with this one, itself among them."""
    for group in policy.groups.values():
        if device in group.devices:
            return group.devices
    return (device,)


def account_loss(theta: Theta, tau0: float, tau1: float, policy: StreamPolicy) -> float:
    """Return the account's loss if each of its streams used as much of its share as these tilts use of this one's.

    The tilts are those of every tick, the policy one of `priced_streams`. Infinite where nothing is proved.
    """
    share = policy.tilt_share
    return theta.constant_loss(tau0 / share, tau1 / share, policy.adversary, stride=policy.stride)


def _devices(policy: Policy, device: str | None) -> int:
    if device is not None:
        return len(group_of(policy, device))
    return max((len(group.devices) for group in policy.groups.values()), default=1)


def _shares(streams: Mapping[str, StreamPolicy]) -> dict[str, float]:
    """Return the share of every stream of one account: as given, and equal parts of the rest."""
    given = {name: one.share for name, one in streams.items() if one.share is not None}
    rest = (1.0 - sum(given.values())) / (len(streams) - len(given)) if len(given) < len(streams) else 0.0
    return {name: given.get(name, rest) for name in streams}


def _epsilon(dependent: Sequence[StreamPolicy]) -> Audiences | None:
    """Return what every account of dependent streams may lose, so that each keeps its promise beside the others.

    The least of their ε; with couplings ρ, an account loses its own loss and ρ times each other's, so all are kept to
    the same part of that ε (docs/theory-world.md, Theorem 23).
    """
    if not dependent:
        return None
    couplings = [one.coupling for one in dependent if one.coupling is not None]
    if any(one.joined for one in dependent):
        couplings.append(0.0)  # the joined streams are one account
    parts = coupled_parts(couplings)
    return Audiences(
        operator=min(one.epsilon.operator for one in dependent) / parts,
        public=min(one.epsilon.public for one in dependent) / parts,
    )


def _assumption(thetas: Sequence[Assumption]) -> Assumption:
    return Assumption(
        start=_hull([one.start for one in thetas]),
        floor=_hull([one.floor for one in thetas]),
    )


def _hull(thetas: Sequence[ThetaMessage]) -> ThetaMessage:
    """Return the smallest Θ of the same form that contains all of these, which have as many states."""
    chains: list[Any] = [one.chains for one in thetas]
    hull: ThetaMessage = theta_message(reduce(lambda one, other: one.hull(other), chains))
    return hull
