"""Device-specific settings: a device with enough evidence has its own Θ, and noise calibrated for that.

Theorem (device-specific settings). The states of a device carry the cohort's settings and its own, and no other
device's: agents refuse those, and so does ingest. Let T0 and T1 be the largest tilts among them and Θ the device's.
Operator: loss(Θ; T0, T1) ≤ ε keeps ε whatever mixture of them it uses (calibrator/settings/choose_noise.py). Public:
the true state of a tick whose sanitized state is tilted by W is tilted by at most the largest amplified(ρ, W) among the
noises it can carry: those issued by then. With τ the largest of these over all ticks, loss(Θ; τ, τ) bounds the public
loss of the device. Proof. The loss rises with every tick's tilt, so the constant timeline bounds both. ∎ The operator's
bound is checked when a setting is issued; the public one then, and again whenever a window is closed.

Like the cohort's, these settings are functions of charged statistics alone. An agent follows the newer of the two, so a
device-specific setting is issued again after the cohort's has changed; until it arrives the device uses the cohort's,
which is a mixture as above.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.ledger.debits import joint_tilt
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.policy.device_tilt import device_window_tilt
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.settings.beside_ended_epochs import beside_ended_epochs
from hushmq.calibrator.settings.calibrate import Issuer, issue_setting
from hushmq.calibrator.settings.choose_noise import (
    WORTH_PUSHING,
    best_noise,
    exceeds_budget,
    mixable,
    worth_pushing,
)
from hushmq.calibrator.settings.stored_settings import StoredSetting
from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.protocols import Noise, Theta

WORTH_A_FIRST = 1.25
"""A device's first device-specific setting is issued when it lifts the signal 1−ρ0−ρ1 by at least this factor."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device, its Θ, and its newest device-specific setting under the policy, if it has one."""

    name: str
    theta: Theta
    setting: StoredSetting | None


@dataclass(frozen=True, slots=True)
class DeviceCalibration:
    """What calibrating the devices of one stream depends on, within one transaction."""

    accounts: LiveAccounts
    issuer: Issuer
    cohort: StoredSetting
    """The cohort's setting in force."""

    def device(self, name: str, setting: StoredSetting | None) -> Device:
        """A device with its learned Θ, or the cohort's where it has none."""
        return Device(name, self.accounts.device_thetas.get(name, self.accounts.theta), setting)

    def may_exceed_budget(self, device: Device) -> bool:
        """Whether the setting it follows was issued for a Θ that does not contain the device's.

        Otherwise it keeps the operator's budget under the device's Θ as well.
        """
        return not self._followed(device).message.theta.chains.contains(device.theta)

    def needed_noise(self, device: Device) -> Noise | None:
        """The noise of a new setting if the one it follows exceeds the operator's budget, and some noise keeps it."""
        if not exceeds_budget(self._followed(device).message.noise.noise, device.theta, self.accounts.policy):
            return None
        try:
            return self._best(device)
        except Problem:
            return None  # no noise keeps the budget under its Θ: the operator's account reports it

    def better_noise(self, device: Device, largest_tilt: int) -> Noise | None:
        """The noise of a new setting if it is worth pushing, given that the one it follows keeps the budget.

        `largest_tilt` is `largest_planned_tilt`.
        """
        followed = self._followed(device)
        used = followed.message.noise.noise
        factor = WORTH_PUSHING if followed is device.setting else WORTH_A_FIRST
        try:
            if self._out_of_reach(device.theta, factor * used.signal):
                return None
            noise = self._within_public_budget(self._best(device), used, device, largest_tilt)
        except Problem:
            return None
        return noise if worth_pushing(noise, used, factor) else None

    def issue(self, db: Connection, device: Device, noise: Noise) -> StoredSetting | None:
        """Sign and store a device-specific setting; None where the device would refuse it, or is not worth pushing.

        The latter where ended epochs leave less than the noise asked for.
        """
        policy, used = self.accounts.policy, self._followed(device).message.noise.noise
        beside = beside_ended_epochs(
            db, self.accounts, noise, theta=device.theta, tick=self.issuer.tick, device=device.name
        )
        if beside != noise and not (
            exceeds_budget(used, device.theta, policy) or worth_pushing(beside, used)
        ):
            return None
        noise = beside
        try:
            return issue_setting(
                db, self.accounts, self.issuer, theta=device.theta, noise=noise, device=device.name
            )
        except Problem:
            return None

    def largest_planned_tilt(self) -> int:
        """The largest tilt that a sanitized state has, or will have when all windows over it are released.

        In nano-nats, under the present Θ.
        """
        planned = self.accounts.planned_tilt(self.accounts.issued.cohort)
        return max(planned, self.accounts.public.largest_sanitized_tilt())

    def _followed(self, device: Device) -> StoredSetting:
        """The newer of its device-specific setting and the cohort's."""
        if device.setting is None or device.setting.message.version < self.cohort.message.version:
            return self.cohort
        return device.setting

    def _best(self, device: Device) -> Noise:
        """The best noise that mixes with all that it was issued in this epoch; Problem where none keeps the budget."""
        issued = self.accounts.issued.noises_since(self.accounts.own_epochs.current.settings, device.name)
        best = best_noise(device.theta, self.accounts.policy)
        return mixable(best, issued, theta=device.theta, policy=self.accounts.policy)

    def _out_of_reach(self, theta: Theta, signal: float) -> bool:
        """Whether no noise with this signal keeps the operator's budget: a quick test before the best is computed."""
        policy = self.accounts.policy
        return signal >= 1 or model_of(policy).out_of_reach(
            theta,
            signal,
            epsilon=policy.epsilon.operator,
            adversary=policy.adversary,
            device_tilt=device_window_tilt(policy) / NANO,
            share=policy.tilt_share,
        )

    def _within_public_budget(self, noise: Noise, used: Noise, device: Device, largest_tilt: int) -> Noise:
        """The noise, or as much more of it as keeps the public budget of the device."""
        issued = self.accounts.issued.noises_of(device.name)

        def within(one: Noise) -> bool:
            tau = self.accounts.public.device_tilt / NANO + joint_tilt(largest_tilt, [*issued, one])
            return self.accounts.bounds.keeps_public(device.theta, tau / self.accounts.policy.tilt_share)

        def between(share: float) -> Noise:
            tau0, tau1 = (old + share * (new - old) for old, new in ends)
            return noise.with_tilts(tau0, tau1)

        if within(noise):
            return noise
        ends = list(zip(used.tilts, noise.tilts, strict=True))
        share, _ = bisection(lambda share: within(between(share)), 0.0, 1.0, absolute=1e-3)
        return between(share) if share > 0 else used
