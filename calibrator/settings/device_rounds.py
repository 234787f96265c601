"""Own settings in portions: after a look every device is gone through, a little at each turn of the loop.

A round is due when what is believed has changed, the policy, or the cohort's setting. Each portion is a transaction of
its own, as short as it is told to be; between two of them the calibrator counts what arrives. First come the devices
for which the setting they follow may be too weak: only these must not wait. Then it is worked out what each device with
settings of its own allows a window to spend; then who else gains by a new setting.

Theorem (the middle of a round). Whatever part of a round is done, and however long it takes: the operator's promise is
kept for every device but those that follow a setting made for a Θ which does not hold theirs; the public's for all.
Proof. A setting is made under the Θ believed now and mixes with all that was issued by now (docs/theory-accounts.md, A4
and A6): nothing in that asks when it is made, or after which other. A device whose turn has not come follows a setting
that, with all issued before it, kept ε under a Θ; if that holds the device's it keeps ε still, since a loss is the
largest over Θ. The public's account is checked whenever a window is closed, for what was issued by then. ∎
The devices excepted were so before the round began, when what is believed of them changed. They are the first of it.

Nothing of a round is stored: after a crash the next one finds those that are made, and makes the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from sqlalchemy import Connection

from hushmq.calibrator.models.chain_model import AnyNoise, AnyTheta
from hushmq.calibrator.settings.calibrate import Current, current_own
from hushmq.calibrator.settings.device_settings import Device, Maker


class Round:
    """One going-through of a stream's devices."""

    def __init__(self, db: Connection, maker: Maker, own: Mapping[str, AnyTheta], last: Round | None) -> None:
        self._own = own
        self.in_force: dict[str, Current] = _in_force(db, maker, {} if last is None else last.in_force)
        """By device its newest own setting under the policy."""
        everyone = [self._device(maker, name) for name in sorted({*own, *maker.issued.own})]
        urgent = {one.name for one in everyone if maker.may_be_too_weak(one)}
        self._urgent = deque(one.name for one in everyone if one.name in urgent)
        self._to_weigh = deque(sorted(maker.issued.own))
        self._rest = deque(one.name for one in everyone if one.name not in urgent)
        self._heaviest: int | None = None

    @property
    def urgent(self) -> bool:
        """Whether there are devices left whose setting may be too weak."""
        return bool(self._urgent)

    @property
    def done(self) -> bool:
        return not (self._urgent or self._to_weigh or self._rest)

    def go_on(self, db: Connection, maker: Maker, enough: Callable[[], bool]) -> list[Current]:
        """Do the next of it until it is enough, and return the settings made. Something is done in any case."""
        self.in_force = _in_force(db, maker, self.in_force)
        made = []
        while not self.done:
            one = self._step(db, maker)
            if one is not None:
                made.append(one)
            if enough():
                break
        return made

    def _step(self, db: Connection, maker: Maker) -> Current | None:
        if self._urgent:
            device = self._device(maker, self._urgent.popleft())
            noise = maker.needed(device)
            if noise is not None:
                return self._make(db, maker, device, noise)
            self._rest.append(device.name)
            return None
        if self._to_weigh:
            maker.weigh(self._to_weigh.popleft(), self._own)
            return None
        if self._heaviest is None:
            self._heaviest = maker.heaviest(self._own)
        device = self._device(maker, self._rest.popleft())
        noise = maker.needed(device)
        if noise is None:
            noise = maker.worthwhile(device, self._heaviest)
        made = None if noise is None else self._make(db, maker, device, noise)
        if device.name in maker.issued.own or made is not None:
            maker.weigh(device.name, self._own)
        return made

    def _device(self, maker: Maker, name: str) -> Device:
        return Device(name, self._own.get(name, maker.account.theta), self.in_force.get(name))

    def _make(self, db: Connection, maker: Maker, device: Device, noise: AnyNoise) -> Current | None:
        made = maker.make(db, device, noise)
        if made is not None:
            self.in_force[device.name] = made
            maker.issued.follow(db)
        return made


def _in_force(db: Connection, maker: Maker, known: Mapping[str, Current]) -> dict[str, Current]:
    """The newest own settings under the policy: those of the last round, unless another calibrator made some."""
    versions = {
        device: version
        for device, (policy, version) in maker.issued.newest.items()
        if policy == maker.policy_version
    }
    if versions == {device: one.message.version for device, one in known.items()}:
        return dict(known)
    return current_own(db, maker.stream, maker.policy_version)
