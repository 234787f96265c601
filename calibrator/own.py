"""Settings for single devices: one with enough evidence of its own has its own Θ and noise.

Theorem (own settings). The states of a device carry the cohort's settings and its own, and no other device's: an agent
refuses those, and ingest does. Let T0 and T1 be the largest tilts among them and Θ the device's region.
Operator: loss(Θ; T0, T1) ≤ ε keeps ε whatever mixture of them it uses (calibrator/push.py). Public: the true state of
a tick whose sanitized state is tilted by W is tilted by at most the largest amplified(ρ, W) among those it can carry:
those issued by then. With τ the largest of these over all ticks, loss(Θ; τ, τ) bounds what all releases tell of it.
Proof. The loss rises with every tick's tilt, so the constant timeline bounds both. ∎
The first is kept when a setting is made; the second then, and again whenever a window is closed.

Like the cohort's, these settings are functions of charged statistics alone. An agent follows the newer of the two, so
a device's own is made again after the cohort's has changed; until that arrives it uses the cohort's, which is a mixture
as above.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select

from broker.messages import StreamPolicy
from broker.problem import Problem
from broker.signature import PrivateKey
from calibrator.account import Account
from calibrator.charge import NANO, Holder, joint_tilt, spending, tilt_of_devices
from calibrator.kind import AnyNoise, AnyTheta, known_loss, of_wire, read, signal, states_of, tilts
from calibrator.push import (
    WORTH_PUSHING,
    Current,
    best_noise,
    current,
    issued_to,
    make_setting,
    mixable,
    noise_of,
    too_weak,
    worth,
)
from calibrator.store import setting

WORTH_OWN = 1.25
"""A device's first own setting is made when it lifts the signal 1−ρ0−ρ1 by at least this factor."""


def holders(
    db: Connection, stream: str, *, theta: AnyTheta, own: Mapping[str, AnyTheta]
) -> tuple[Holder, ...]:
    """Every device that was ever given a setting of its own. One of which nothing is believed has the cohort's Θ."""
    rows = db.execute(
        select(setting.c.device, setting.c.issued, setting.c.noise).where(
            setting.c.stream == stream, setting.c.device.is_not(None)
        )
    )
    issued: dict[str, list[tuple[int, AnyNoise]]] = {}
    for row in rows:
        issued.setdefault(row.device, []).append((row.issued, read(row.noise)))
    return tuple(
        Holder(device, own.get(device, theta), tuple(issued_to(db, stream, device)), tuple(issued[device]))
        for device in sorted(issued)
    )


def public_loss(account: Account, others: Iterable[Holder], policy: StreamPolicy) -> float:
    """What releases tell of any device: of the cohort's, and of those with settings of their own."""
    own = [one.public_loss(account.most(one.own), policy) for one in others]
    return max([account.price().epsilon, *own])


@dataclass(frozen=True, slots=True)
class Maker:
    """What the own settings of one stream have in common."""

    cohort: str
    stream: str
    policy: StreamPolicy
    policy_version: int
    key: PrivateKey
    tick: int
    account: Account
    others: tuple[Holder, ...]

    def settings(
        self, db: Connection, own: Mapping[str, AnyTheta]
    ) -> tuple[dict[str, Current], list[Current]]:
        """The own setting in force of each device that has one, and those just made."""
        cohorts = current(db, self.stream, self.policy_version)
        if cohorts is None:
            return {}, []
        heaviest = self._heaviest(db)
        found, made = {}, []
        for device in sorted({*own, *(one.device for one in self.others)}):
            theta = own.get(device, self.account.theta)
            have = current(db, self.stream, self.policy_version, device)
            try:
                noise = self._wanted(db, device, theta, cohorts, have, heaviest)
            except Problem:
                noise = None  # none keeps ε under its Θ: the operator's account says so
            if noise is not None:
                have = make_setting(
                    db,
                    cohort=self.cohort,
                    stream=self.stream,
                    policy_version=self.policy_version,
                    theta=theta,
                    noise=noise,
                    own=tilt_of_devices(self.policy),
                    key=self.key,
                    tick=self.tick,
                    device=device,
                )
                made.append(have)
            if have is not None:
                found[device] = have
        return found, made

    def _wanted(
        self,
        db: Connection,
        device: str,
        theta: AnyTheta,
        cohorts: Current,
        have: Current | None,
        heaviest: int,
    ) -> AnyNoise | None:
        """The noise of a new setting, if what the device follows is too weak for its Θ or it is worth it."""
        newer = have is not None and have.message.version > cohorts.message.version
        followed = of_wire((have if have is not None and newer else cohorts).message.noise)
        factor = () if newer else (WORTH_OWN,)
        if not too_weak(followed, theta, self.policy) and self._hopeless(theta, followed, *factor):
            return None
        issued = issued_to(db, self.stream, device)
        best = mixable(best_noise(theta, self.policy), issued, theta=theta, policy=self.policy)
        if too_weak(followed, theta, self.policy):
            return best
        noise = self._within_public(best, followed, theta, issued, heaviest)
        return noise if worth(noise, followed, *factor) else None

    def _hopeless(self, theta: AnyTheta, followed: AnyNoise, factor: float = WORTH_PUSHING) -> bool:
        """Whether noise that is worth it is out of reach, for more than two states: one proof instead of a search.

        Randomized response of k states with signal s has e^τ = (1 + (k−1)·s)/(1 − s).
        """
        k, wanted = states_of(theta), factor * signal(followed)
        if k == 2:
            return False
        if wanted >= 1:
            return True
        tau = math.log((1 + (k - 1) * wanted) / (1 - wanted)) + tilt_of_devices(self.policy) / NANO
        return known_loss(theta, tau, tau, self.policy.adversary) > self.policy.epsilon.operator

    def _heaviest(self, db: Connection) -> int:
        """The most that one sanitized state pays or will pay while Θ is as it is."""
        cohorts = issued_to(db, self.stream)
        planned = sum(
            spending(
                self.policy,
                window,
                scope,
                theta=self.account.theta,
                noises=cohorts,
                device_tilt=self.account.device_tilt,
                others=self.others,
            ).tilt
            for window, one in self.policy.windows.items()
            for scope in one.scopes
        )
        return max(planned, self.account.heaviest())

    def _within_public(
        self, noise: AnyNoise, followed: AnyNoise, theta: AnyTheta, issued: list[AnyNoise], heaviest: int
    ) -> AnyNoise:
        """The noise, or as much more of it as leaves the public's account of the device within ε."""

        def within(one: AnyNoise) -> bool:
            tau = self.account.device_tilt / NANO + joint_tilt(heaviest, [*issued, one])
            found = known_loss(theta, tau, tau, self.policy.adversary)
            return found <= self.policy.epsilon.public

        if within(noise):
            return noise
        low, high, kept = 0.0, 1.0, followed
        ends = list(zip(tilts(followed), tilts(noise), strict=True))
        while high - low > 1e-3:
            middle = (low + high) / 2
            tau0, tau1 = (old + middle * (new - old) for old, new in ends)
            trial = noise_of(tau0, tau1, states_of(theta))
            if within(trial):
                low, kept = middle, trial
            else:
                high = middle
        return kept
