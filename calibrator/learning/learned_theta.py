"""What is learned of a stream: Θ of the cohort and of each device, as it is stored.

The policy's start and floor and the misfit are no part of it (calibrator/learning/stream_theta.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.store.tables import learned_theta
from hushmq.pufferfish.protocols import Region

_COHORT = ""
"""The name, no device's, under which the cohort's Θ is stored."""


@dataclass(frozen=True, slots=True)
class LearnedTheta:
    """The region of any device of the cohort, None before the first theta update; and of each with its own evidence."""

    cohort: Region | None = None
    devices: Mapping[str, Region] = field(default_factory=dict)


def read_learned(db: Connection, stream: str, model: AnyModel) -> LearnedTheta:
    """All that is learned of a stream."""
    rows = db.execute(select(learned_theta).where(learned_theta.c.stream == stream))
    found: dict[str, Region] = {row.device: model.read_region(json.loads(row.theta)) for row in rows}
    return LearnedTheta(found.pop(_COHORT, None), found)


def read_cohort(db: Connection, stream: str, model: AnyModel) -> Region | None:
    """What is learned of any device of the cohort; None before the first theta update."""
    text = db.execute(select(learned_theta.c.theta).where(_of_cohort(stream))).scalar()
    found: Region | None = None if text is None else model.read_region(json.loads(text))
    return found


def is_learned(db: Connection, stream: str) -> bool:
    """Whether there is a learned Θ of the cohort."""
    return db.execute(select(learned_theta.c.device).where(_of_cohort(stream))).first() is not None


def write_learned(db: Connection, stream: str, learned: LearnedTheta) -> None:
    """Store these Θ in place of those of the same cohort and devices; others stay."""
    whole = {} if learned.cohort is None else {_COHORT: learned.cohort}
    fresh = {**learned.devices, **whole}
    drop_devices(db, stream, fresh)
    rows = [
        {"stream": stream, "device": device, "theta": json.dumps(theta.as_tree())}
        for device, theta in fresh.items()
    ]
    if rows:
        db.execute(insert(learned_theta), rows)


def drop_devices(db: Connection, stream: str, devices: Iterable[str]) -> None:
    """Delete what is learned of these devices."""
    for device in devices:
        db.execute(
            delete(learned_theta).where(learned_theta.c.stream == stream, learned_theta.c.device == device)
        )


def drop_stream(db: Connection, stream: str) -> None:
    """Delete all that is learned of a stream."""
    db.execute(delete(learned_theta).where(learned_theta.c.stream == stream))


def _of_cohort(stream: str) -> ColumnElement[bool]:
    return (learned_theta.c.stream == stream) & (learned_theta.c.device == _COHORT)
