"""Noise settings: when a new one is worth pushing, and its signed bytes.

A setting is stored before it is published, so that a version is never given to two different settings.

Theorem (no bad moment). Let T0 and T1 be the largest tilts towards 0 and towards 1 of all settings ever issued for a
stream. If loss(Θ; T0, T1) ≤ ε, then whatever mixture of these settings a device uses, tick by tick, in whatever
order and however long it lags behind, the loss at every tick is at most ε for every chain in Θ.
Proof. The loss of a timeline rises with every τ0(t) and every τ1(t) (docs/theory.md, Theorem 1: each step is
increasing in m; for q+r > 1 after relabelling). Every tick has τ0(t) ≤ T0 and τ1(t) ≤ T1, so the timeline costs no
more than the constant one (T0, T1), and that costs loss(Θ; T0, T1).
For q+r ≤ 1 the two directions do not meet, so settings that keep ε each keep it together; beyond it they need
not, and `mixable` adds the noise that makes them. For more than two states the tilt is the same in all directions
(pufferfish/categorical/categorical_timeline.py: every step grows with its tilts), so settings that keep ε each keep it
together.
A Θ that widens or an ε that ops lower may leave what was published over budget: no setting can take that back, the
operator's account says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Connection, func, insert, select, update

from hushmq.broker.contract.messages import NoiseSetting, StreamPolicy, encode
from hushmq.broker.contract.noise_message import Emission, Flips
from hushmq.broker.contract.operator_loss import operator_loss
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.signature import PrivateKey, Signed
from hushmq.broker.contract.theta_message import theta_of
from hushmq.calibrator.ledger.audience_timelines import MARGIN, NANO, Holder, known_limits, tilt_of_devices
from hushmq.calibrator.models.chain_model import (
    AnyNoise,
    AnyTheta,
    contains,
    known_loss,
    largest_within,
    of_wire,
    read,
    signal,
    states_of,
    tilts,
    to_wire,
    written,
)
from hushmq.calibrator.store.tables import setting
from hushmq.pufferfish.binary.stream_loss import Adversary, Noise, optimal_noise
from hushmq.pufferfish.categorical.emission import response
from hushmq.pufferfish.categorical.transition_intervals import Class

ROOM = 1e-9
"""Share of ε left free, so that a timeline's price, rounded up more generously than a constant loss, is within it."""
LESS = (0.0, 1e-6, 1e-3, 0.05)
"""Shares of a tilt that are left out, one after the other, until its proof is one that devices take."""
WORTH_PUSHING = 1.05
"""A tighter setting is pushed when it lifts the signal 1−ρ0−ρ1 by at least this factor."""


@dataclass(frozen=True, slots=True)
class Current:
    """The setting in force for a stream: its message and the bytes on the wire."""

    message: NoiseSetting
    payload: bytes


def current(db: Connection, stream: str, policy_version: int) -> Current | None:
    """The cohort's newest setting under this policy."""
    row = db.execute(
        select(setting.c.payload)
        .where(
            setting.c.stream == stream,
            setting.c.policy == policy_version,
            setting.c.device.is_(None),
        )
        .order_by(setting.c.version.desc())
        .limit(1)
    ).first()
    return None if row is None else _read(row.payload)


def _read(payload: bytes) -> Current:
    return Current(Signed[NoiseSetting].model_validate_json(payload).message, payload)


def current_own(db: Connection, stream: str, policy_version: int) -> dict[str, Current]:
    """By device the newest of its own settings under this policy."""
    newest = (
        select(func.max(setting.c.version))
        .where(setting.c.stream == stream, setting.c.policy == policy_version, setting.c.device.is_not(None))
        .group_by(setting.c.device)
    )
    rows = db.execute(
        select(setting.c.device, setting.c.payload).where(
            setting.c.stream == stream, setting.c.version.in_(newest)
        )
    )
    return {row.device: _read(row.payload) for row in rows}


def next_setting(
    db: Connection,
    *,
    cohort: str,
    stream: str,
    policy: StreamPolicy,
    policy_version: int,
    theta: AnyTheta,
    key: PrivateKey,
    tick: int = 0,
    others: Sequence[Holder] = (),
) -> Current | None:
    """Store and return a new setting for Θ if there is none yet, if the old one is too weak, or if it is worth it.

    It mixes with all that was issued, also for each of the `others` with what was issued to them.
    """
    issued = issued_to(db, stream)
    noise = mixable(best_noise(theta, policy), issued, theta=theta, policy=policy, others=others)
    old = current(db, stream, policy_version)
    if (
        old is not None
        and not too_weak(of_wire(old.message.noise), theta, policy)
        and not worth(noise, of_wire(old.message.noise))
    ):
        return None
    return make_setting(
        db,
        cohort=cohort,
        stream=stream,
        policy=policy,
        policy_version=policy_version,
        theta=theta,
        noise=noise,
        key=key,
        tick=tick,
    )


def issued_to(db: Connection, stream: str, device: str | None = None) -> list[AnyNoise]:
    """The noise of every setting ever made for all devices, and for this one."""
    rows = db.execute(
        select(setting.c.noise).where(
            setting.c.stream == stream, setting.c.device.is_(None) | (setting.c.device == device)
        )
    )
    return [read(row.noise) for row in rows]


def too_weak(noise: AnyNoise, theta: AnyTheta, policy: StreamPolicy) -> bool:
    """Whether the noise breaks the operator's promise under Θ."""
    own = tilt_of_devices(policy) / NANO
    tau0, tau1 = tilts(noise)
    return known_loss(theta, tau0 + own, tau1 + own, policy.adversary) > policy.epsilon.operator


def worth(new: AnyNoise, old: AnyNoise, factor: float = WORTH_PUSHING) -> bool:
    """Whether the new noise leaves so much more signal."""
    return signal(new) >= factor * signal(old)


def make_setting(
    db: Connection,
    *,
    cohort: str,
    stream: str,
    policy: StreamPolicy,
    policy_version: int,
    theta: AnyTheta,
    noise: AnyNoise,
    key: PrivateKey,
    tick: int,
    device: str | None = None,
) -> Current:
    """Sign a setting under the stream's next version, and store it; Problem if devices would not take it."""
    highest = db.execute(select(func.max(setting.c.version)).where(setting.c.stream == stream)).scalar()
    message = NoiseSetting(
        version=(highest or 0) + 1,
        policy=policy_version,
        cohort=cohort,
        stream=stream,
        device=device,
        theta=theta_of(theta),
        noise=proved(noise, theta, policy),
    )
    made = Current(message, encode(key.sign(message)))
    store_setting(db, made, tick=tick)
    return made


def proved(noise: AnyNoise, theta: AnyTheta, policy: StreamPolicy) -> Flips | Emission:
    """The noise as it is pushed, checked as a device checks it; Problem where it would be refused.

    For more than two states a proof may fail by a rounding where another succeeds: a little less tilt is tried.
    """
    own, chains = tilt_of_devices(policy) / NANO, theta_of(theta)
    why = ""
    for share in LESS if isinstance(theta, Class) else LESS[:1]:
        tau0, tau1 = (tau * (1 - share) for tau in tilts(noise))
        less = noise_of(tau0, tau1, states_of(theta)) if share else noise
        try:
            pushed = to_wire(less, theta, own)
            found = operator_loss(chains, pushed, own, policy.adversary)
        except (Rejected, ValueError) as error:
            why = str(error)
            continue
        if found <= policy.epsilon.operator:
            return pushed
        why = f"its loss is {found:.6g} of {policy.epsilon.operator:g}"
    raise Problem(f"no device would take this noise: {why}")


def sign_anew(db: Connection, key: PrivateKey) -> int:
    """Sign stored settings of another key with this one, message and version as they were; how many there were.

    After a rotation a device that trusts the new key alone takes them; one that has them already sees no change.
    """
    foreign = []
    for row in db.execute(select(setting.c.stream, setting.c.version, setting.c.payload)):
        envelope = Signed[NoiseSetting].model_validate_json(row.payload)
        if envelope.key != key.public.id:
            foreign.append((row.stream, row.version, encode(key.sign(envelope.message))))
    for stream, version, payload in foreign:
        db.execute(
            update(setting)
            .where(setting.c.stream == stream, setting.c.version == version)
            .values(payload=payload)
        )
    return len(foreign)


def store_setting(db: Connection, made: Current, *, tick: int) -> None:
    """Keep a setting for ever; `tick` is the first at which a device can have it."""
    message = made.message
    db.execute(
        insert(setting).values(
            stream=message.stream,
            version=message.version,
            policy=message.policy,
            device=message.device,
            issued=tick,
            noise=written(of_wire(message.noise)),
            payload=made.payload,
        )
    )


known_optimum = lru_cache(maxsize=8192)(optimal_noise)


def best_noise(theta: AnyTheta, policy: StreamPolicy, adversary: Adversary | None = None) -> AnyNoise:
    """The noise that leaves the most signal within ε of the operator, after what device-made windows cost.

    Against the policy's adversary, or another.
    """
    epsilon = policy.epsilon.operator * (1 - ROOM)
    own = tilt_of_devices(policy) / NANO
    adversary = adversary or policy.adversary
    if isinstance(theta, Class):
        tau0 = tau1 = largest_within(theta, policy.epsilon.operator - MARGIN)
        if not tau0:
            raise Problem(
                f"theta.start: its chains may forget too slowly for ε of {policy.epsilon.operator:g}: narrow it"
            )
    elif not own:
        return known_optimum(theta, epsilon, adversary)
    else:
        tau0, tau1 = known_limits(theta, epsilon, adversary)
    if min(tau0, tau1) <= own:
        raise Problem(
            f"the device's own windows cost {own:.4f} at every tick, and ε of {policy.epsilon.operator:g} leaves "
            f"{min(tau0, tau1):.4f}: raise their scale or ε"
        )
    return noise_of(tau0 - own, tau1 - own, states_of(theta))


def mixable(
    noise: AnyNoise,
    issued: Iterable[AnyNoise],
    *,
    theta: AnyTheta,
    policy: StreamPolicy,
    others: Sequence[Holder] = (),
) -> AnyNoise:
    """The noise, or as much more of it as keeps every mixture with what was issued within ε (the theorem above)."""
    tau0, tau1 = _largest(issued)
    best0, best1 = tilts(noise)
    own = tilt_of_devices(policy) / NANO
    held = [(theta, tau0, tau1)]
    for one in others:
        old0, old1 = _largest(one.noises)
        # One whose settings are no stronger in either direction loses nothing by this one; for one in Θ that has
        # nothing weaker than the cohort's, what keeps ε for all of Θ does.
        changes = best0 > old0 or best1 > old1
        like_any = old0 <= tau0 and old1 <= tau1 and contains(theta, one.theta)
        if changes and not like_any:
            held.append((one.theta, old0, old1))

    def within(share: float) -> bool:
        new0, new1 = tau0 + share * (best0 - tau0), tau1 + share * (best1 - tau1)
        return all(
            known_loss(chains, max(old0, new0) + own, max(old1, new1) + own, policy.adversary)
            <= policy.epsilon.operator
            for chains, old0, old1 in held
        )

    if within(1.0) or not within(0.0):
        return noise
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return noise_of(
        min(best0, max(tau0, tau0 + low * (best0 - tau0))),
        min(best1, max(tau1, tau1 + low * (best1 - tau1))),
        states_of(theta),
    )


def _largest(noises: Iterable[AnyNoise]) -> tuple[float, float]:
    listed = [tilts(one) for one in noises]
    return max((one for one, _ in listed), default=0.0), max((one for _, one in listed), default=0.0)


def noise_of(tau0: float, tau1: float, states: int = 2) -> AnyNoise:
    """The noise of these tilts that leaves most signal, rounded towards more noise.

    Two states: ρ0 = (M0−1)/(M0·M1−1), ρ1 = (M1−1)/(M0·M1−1). More: randomized response of the smaller tilt.
    """
    if states > 2:
        return response(states, min(tau0, tau1))
    both = math.expm1(tau0 + tau1)
    rho0, rho1 = math.expm1(tau0) / both, math.expm1(tau1) / both
    up = 1.0
    while True:
        up += 2.0**-52
        noise = Noise(rho0 * up, rho1 * up)
        if noise.tau0 <= tau0 and noise.tau1 <= tau1:
            return noise
