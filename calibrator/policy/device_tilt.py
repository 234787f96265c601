"""What the windows that devices make themselves cost, under the policy and under all policies before it."""

from __future__ import annotations

import math

from sqlalchemy import Connection, func, select

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store.tables import device_tilt


def device_window_tilt(stream: StreamPolicy) -> int:
    """What device-made windows cost at every tick, in both accounts: 1/scale each for two states, in nano-nats.

    A device draws them from true states, so nothing is amplified, and the tilts simply add (docs/theory.md, section 2).
    """
    return math.ceil(stream.device_window_tilt * NANO)


def largest_device_tilt(db: Connection, stream: str) -> int:
    """The largest cost of device-made windows under any policy followed so far: a device may lag behind."""
    found = db.execute(select(func.max(device_tilt.c.tilt)).where(device_tilt.c.stream == stream)).scalar()
    return int(found or 0)
