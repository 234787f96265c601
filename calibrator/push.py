"""Noise settings: when a new one is worth pushing, and its signed bytes.

A setting is stored before it is published, so that a version is never given to two different settings.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from broker.messages import NoiseSetting, StreamPolicy, Theta, encode
from broker.signature import PrivateKey, Signed
from calibrator.store import setting
from pufferfish.binary import Box, loss, optimal_noise

WORTH_PUSHING = 1.05
"""A tighter setting is pushed when it lifts the signal 1−ρ0−ρ1 by at least this factor."""


@dataclass(frozen=True, slots=True)
class Current:
    """The setting in force for a stream: its message and the bytes on the wire."""

    message: NoiseSetting
    payload: bytes


def current(db: Connection, stream: str, policy_version: int) -> Current | None:
    """The newest setting under this policy."""
    row = db.execute(
        select(setting.c.payload)
        .where(setting.c.stream == stream, setting.c.policy == policy_version)
        .order_by(setting.c.version.desc())
        .limit(1)
    ).first()
    if row is None:
        return None

    return Current(Signed[NoiseSetting].model_validate_json(row.payload).message, row.payload)


def next_setting(
    db: Connection,
    *,
    cohort: str,
    stream: str,
    policy: StreamPolicy,
    policy_version: int,
    theta: Box,
    key: PrivateKey,
) -> Current | None:
    """Store and return a new setting for Θ if there is none yet, if the old one is too weak, or if it is worth it."""
    noise = optimal_noise(theta, policy.epsilon.operator, policy.adversary)
    old = current(db, stream, policy_version)
    if old is not None:
        still_enough = (
            loss(theta, tau0=old.message.noise.tau0, tau1=old.message.noise.tau1, adversary=policy.adversary)
            <= policy.epsilon.operator
        )
        gain = (1 - noise.rho0 - noise.rho1) / (1 - old.message.rho0 - old.message.rho1)
        if still_enough and gain < WORTH_PUSHING:
            return None
    highest = db.execute(select(func.max(setting.c.version)).where(setting.c.stream == stream)).scalar()
    message = NoiseSetting(
        version=(highest or 0) + 1,
        policy=policy_version,
        cohort=cohort,
        stream=stream,
        theta=Theta.of(theta),
        rho0=noise.rho0,
        rho1=noise.rho1,
    )
    payload = encode(key.sign(message))
    db.execute(
        insert(setting).values(
            stream=stream,
            version=message.version,
            policy=policy_version,
            rho0=message.rho0,
            rho1=message.rho1,
            payload=payload,
        )
    )
    return Current(message, payload)
