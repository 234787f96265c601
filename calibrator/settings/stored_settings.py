"""Every noise setting ever issued, as it is stored: message and signed bytes.

A setting is stored before it is published, so that a version never stands for two different settings.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select, update

from hushmq.broker.contract.messages import NoiseSetting, encode
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.signature import PrivateKey, Signed, verify
from hushmq.calibrator.store.tables import epoch, setting


@dataclass(frozen=True, slots=True)
class StoredSetting:
    """A noise setting: its message, and the signed bytes on the wire."""

    message: NoiseSetting
    payload: bytes


def cohort_setting(db: Connection, stream: str, policy_version: int) -> StoredSetting | None:
    """The newest setting of the cohort under this policy; None before the first."""
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


def _read(payload: bytes) -> StoredSetting:
    return StoredSetting(Signed[NoiseSetting].model_validate_json(payload).message, payload)


def device_settings(db: Connection, stream: str, policy_version: int) -> dict[str, StoredSetting]:
    """By device, the newest device-specific setting under this policy."""
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


def next_version(db: Connection, stream: str) -> int:
    """The version of the stream's next setting: versions only rise, also above those that an old ledger has lost."""
    highest = db.execute(select(func.max(setting.c.version)).where(setting.c.stream == stream)).scalar()
    before = db.execute(select(func.max(epoch.c.settings)).where(epoch.c.stream == stream)).scalar()
    return 1 + max(highest or 0, before or 0)


def store_setting(db: Connection, made: StoredSetting, *, tick: int) -> None:
    """Store a setting for ever; `tick` is the first that can carry its noise."""
    message = made.message
    db.execute(
        insert(setting).values(
            stream=message.stream,
            version=message.version,
            policy=message.policy,
            device=message.device,
            issued=tick,
            noise=message.noise.noise.as_json(),
            payload=made.payload,
        )
    )


def restore_setting(db: Connection, cohort: str, key: PrivateKey, payload: bytes) -> NoiseSetting | None:
    """Re-insert a signed setting that is missing after a restore, so that its version is not reused.

    Returns it, or None if it is stored already. Rejected unless we signed it for this cohort.
    """
    message = verify(NoiseSetting, payload, [key.public])
    if message.cohort != cohort:
        raise Rejected(Reason.WRONG_ADDRESS, f"setting for cohort {message.cohort}")
    known = db.execute(
        select(setting.c.version).where(
            setting.c.stream == message.stream, setting.c.version == message.version
        )
    ).first()
    if known is not None:
        return None
    # It may have been in use since any time: issued at tick 0.
    store_setting(db, StoredSetting(message, payload), tick=0)
    return message


def sign_again(db: Connection, key: PrivateKey) -> int:
    """Sign the stored settings of another key with this one, message and version unchanged; return how many.

    After a key rotation a device that trusts only the new key accepts them; for others nothing changes.
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
