"""Settings for single devices: one with enough evidence of its own has its own Θ and noise.

Theorem (own settings). The states of a device carry the cohort's settings and its own, and no other device's: an agent
refuses those, and ingest does. Let T0 and T1 be the largest tilts among them and Θ the device's region.
Operator: loss(Θ; T0, T1) ≤ ε keeps ε whatever mixture of them it uses (calibrator/settings/calibrate.py). Public:
the true state of a tick whose sanitized state is tilted by W is tilted by at most the largest amplified(ρ, W) among
those it can carry: those issued by then. With τ the largest of these over all ticks, loss(Θ; τ, τ) bounds what all
releases tell of it. Proof. The loss rises with every tick's tilt, so the constant timeline bounds both. ∎ The first
is kept when a setting is made; the second then, and again whenever a window is closed.

Like the cohort's, these settings are functions of charged statistics alone. An agent follows the newer of the two, so
a device's own is made again after the cohort's has changed; until that arrives it uses the cohort's, which is a mixture
as above.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from hushmq.broker.contract.messages import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.calibrator.ledger.audience_timelines import (
    LARGEST_TILT,
    NANO,
    Holder,
    allowed,
    joint_tilt,
    spending,
    tilt_of_devices,
)
from hushmq.calibrator.ledger.issued_noise import Issued
from hushmq.calibrator.ledger.public_account import Account
from hushmq.calibrator.models.chain_model import (
    AnyNoise,
    AnyTheta,
    contains,
    keeps,
    known_loss,
    of_wire,
    signal,
    states_of,
    tilts,
)
from hushmq.calibrator.settings.calibrate import (
    WORTH_PUSHING,
    Current,
    best_noise,
    make_setting,
    mixable,
    noise_of,
    too_weak,
    worth,
)

WORTH_OWN = 1.25
"""A device's first own setting is made when it lifts the signal 1−ρ0−ρ1 by at least this factor."""


def public_loss(account: Account, others: Iterable[Holder], policy: StreamPolicy) -> float:
    """What releases tell of any device: of the cohort's, and of those with settings of their own."""
    own = [one.public_loss(account.most(one.own), policy) for one in others]
    return max([account.price().epsilon, *own])


@dataclass(frozen=True, slots=True)
class Device:
    """A device, its Θ, and its newest own setting under the policy, if it has one."""

    name: str
    theta: AnyTheta
    have: Current | None


@dataclass(frozen=True, slots=True)
class Maker:
    """What the own settings of one stream have in common, within one transaction."""

    cohort: str
    stream: str
    policy: StreamPolicy
    policy_version: int
    key: PrivateKey
    tick: int
    account: Account
    issued: Issued
    cohorts: Current
    """The cohort's setting in force."""

    def may_be_too_weak(self, device: Device) -> bool:
        """Whether what it follows was made for a Θ that does not hold the device's: else it keeps ε all the same."""
        return not contains(self._followed(device).message.theta.chains, device.theta)

    def needed(self, device: Device) -> AnyNoise | None:
        """The noise of a new setting if what the device follows is too weak for its Θ, and some noise is not."""
        if not too_weak(of_wire(self._followed(device).message.noise), device.theta, self.policy):
            return None
        try:
            return self._best(device)
        except Problem:
            return None  # none keeps ε under its Θ: the operator's account says so

    def worthwhile(self, device: Device, heaviest: int) -> AnyNoise | None:
        """The noise of a new setting if that is worth it, what it follows being strong enough."""
        have, followed = device.have, of_wire(self._followed(device).message.noise)
        factor = WORTH_PUSHING if have is not None and self._followed(device) is have else WORTH_OWN
        try:
            if self._hopeless(device.theta, followed, factor):
                return None
            noise = self._within_public(self._best(device), followed, device, heaviest)
        except Problem:
            return None
        return noise if worth(noise, followed, factor) else None

    def make(self, db: Connection, device: Device, noise: AnyNoise) -> Current | None:
        """Sign and store a setting; None where the device would not take it."""
        try:
            return make_setting(
                db,
                cohort=self.cohort,
                stream=self.stream,
                policy=self.policy,
                policy_version=self.policy_version,
                theta=device.theta,
                noise=noise,
                key=self.key,
                tick=self.tick,
                device=device.name,
            )
        except Problem:
            return None

    def holder(self, device: str, own: Mapping[str, AnyTheta]) -> Holder:
        """What must be kept for a device with settings of its own."""
        return self.issued.holder(device, own.get(device, self.account.theta))

    def weigh(self, device: str, own: Mapping[str, AnyTheta]) -> None:
        """Work out its accounts, and what a window may spend for its sake: so that they are known when asked for."""
        one = self.holder(device, own)
        tilt = self.account.device_tilt
        for method in {window.method for window in self.policy.windows.values()}:
            cohorts = (self.policy, method, self.account.theta, self.issued.cohorts)
            one.allows(self.policy, method, allowed(*cohorts, LARGEST_TILT, tilt), tilt)
        one.public_loss(self.account.most(one.own), self.policy)
        one.operator_loss(self.policy, tilt)

    def heaviest(self, own: Mapping[str, AnyTheta]) -> int:
        """The most that one sanitized state pays or will pay while Θ is as it is."""
        others = self.issued.holders(self.account.theta, own)
        planned = sum(
            spending(
                self.policy,
                window,
                scope,
                theta=self.account.theta,
                noises=self.issued.cohorts,
                device_tilt=self.account.device_tilt,
                others=others,
            ).tilt
            for window, one in self.policy.windows.items()
            for scope in one.scopes
        )
        return max(planned, self.account.heaviest())

    def _followed(self, device: Device) -> Current:
        """The newer of its own setting and the cohort's."""
        have = device.have
        newer = have is not None and have.message.version > self.cohorts.message.version
        return have if have is not None and newer else self.cohorts

    def _best(self, device: Device) -> AnyNoise:
        issued = self.issued.to(device.name)
        best = best_noise(device.theta, self.policy)
        return mixable(best, issued, theta=device.theta, policy=self.policy)

    def _hopeless(self, theta: AnyTheta, followed: AnyNoise, factor: float) -> bool:
        """Whether noise that is worth it is out of reach: quicker to tell than how much is.

        Randomized response of k states with signal s has e^τ = (1 + (k−1)·s)/(1 − s). For two states: the prior
        adversary allows no less than the informed one.
        """
        k, wanted = states_of(theta), factor * signal(followed)
        if wanted >= 1:
            return True
        if k == 2:
            informed = self.policy.adversary == "informed"
            return informed and signal(best_noise(theta, self.policy, "prior")) < wanted
        tau = math.log((1 + (k - 1) * wanted) / (1 - wanted)) + tilt_of_devices(self.policy) / NANO
        return known_loss(theta, tau, tau, self.policy.adversary) > self.policy.epsilon.operator

    def _within_public(self, noise: AnyNoise, followed: AnyNoise, device: Device, heaviest: int) -> AnyNoise:
        """The noise, or as much more of it as leaves the public's account of the device within ε."""
        issued = self.issued.to(device.name)
        theta = device.theta

        def within(one: AnyNoise) -> bool:
            tau = self.account.device_tilt / NANO + joint_tilt(heaviest, [*issued, one])
            return keeps(theta, tau, self.policy.epsilon.public, self.policy.adversary)

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
