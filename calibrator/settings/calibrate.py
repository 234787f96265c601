"""Calibrate: choose the noise for the learned Θ, sign it as a setting, and store that."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy import Connection

from hushmq.broker.contract.messages import NoiseSetting, encode
from hushmq.broker.contract.signature import PrivateKey
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.settings.beside_ended_epochs import beside_ended_epochs
from hushmq.calibrator.settings.choose_noise import (
    best_noise,
    exceeds_budget,
    mixable,
    provable_message,
    worth_pushing,
)
from hushmq.calibrator.settings.stored_settings import (
    StoredSetting,
    cohort_setting,
    next_version,
    store_setting,
)
from hushmq.pufferfish.protocols import Noise, Theta


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who signs a setting, for which cohort and under which policy; no tick before `tick` can carry it."""

    cohort: str
    key: PrivateKey
    policy_version: int
    tick: int = 0


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The setting in force for a cohort, and whether it was issued just now."""

    setting: StoredSetting
    issued: bool


def calibrate_cohort(db: Connection, accounts: LiveAccounts, issuer: Issuer) -> Calibrated:
    """Issue a setting if the epoch has none yet, if the old one exceeds the budget, or if a new one is worth pushing.

    Its noise mixes with everything issued before in this epoch, also for devices with device-specific settings, and is
    enough beside what older epochs have published. Problem where no noise keeps the operator's budget.
    """
    theta, policy, since = accounts.theta, accounts.policy, accounts.own_epochs.current.settings
    noise = mixable(
        best_noise(theta, policy),
        accounts.issued.noises_since(since),
        theta=theta,
        policy=policy,
        exposures=[
            replace(one, noises=accounts.issued.noises_since(since, one.device))
            for one in accounts.exposures.values()
        ],
    )
    old = cohort_setting(db, accounts.stream, issuer.policy_version)
    if old is None or old.message.version <= since or exceeds_budget(old.message.noise.noise, theta, policy):
        noise = beside_ended_epochs(db, accounts, noise, theta=theta, tick=issuer.tick)
        return Calibrated(issue_setting(db, accounts, issuer, theta=theta, noise=noise), issued=True)
    used = old.message.noise.noise
    if worth_pushing(noise, used):
        noise = beside_ended_epochs(db, accounts, noise, theta=theta, tick=issuer.tick)
    if not worth_pushing(noise, used):
        return Calibrated(old, issued=False)
    return Calibrated(issue_setting(db, accounts, issuer, theta=theta, noise=noise), issued=True)


def issue_setting(
    db: Connection,
    accounts: LiveAccounts,
    issuer: Issuer,
    *,
    theta: Theta,
    noise: Noise,
    device: str | None = None,
) -> StoredSetting:
    """Sign a setting under the stream's next version and store it; Problem if devices would refuse it.

    It is the cohort's, or device-specific where a device is named.
    """
    message = NoiseSetting(
        version=next_version(db, accounts.stream),
        policy=issuer.policy_version,
        cohort=issuer.cohort,
        stream=accounts.stream,
        device=device,
        theta=model_of(accounts.policy).theta_message(theta),
        noise=provable_message(noise, theta, accounts.policy),
    )
    made = StoredSetting(message, encode(issuer.key.sign(message)))
    store_setting(db, made, tick=issuer.tick)
    accounts.follow_settings(db)
    return made
