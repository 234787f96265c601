"""What devices that are left out have lost, if their chains are where their charged statistics put them.

That cannot be taken back, and is no reason to stop the releases of the others: so it is stated apart from the accounts.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from hushmq.calibrator.ledger.device_exposure import DeviceExposure
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.roster.left_out import left_out


@dataclass(frozen=True, slots=True)
class LeftOutDevice:
    """A device that is left out: why, from which tick on, and upper bounds on what it has lost to each audience."""

    reason: str
    since: int
    operator: float
    public: float


def left_out_devices(db: Connection, accounts: LiveAccounts) -> dict[str, LeftOutDevice]:
    """The devices that are left out of a stream, by name."""
    policy, issued, public = accounts.policy, accounts.issued, accounts.public
    model = model_of(policy)
    found = {}
    for device, one in left_out(db, accounts.stream).items():
        region = one.region
        theta = model.start(policy) if region is None else model.theta_of(model.read_region(region))
        specific = tuple(issued.by_device.get(device, ()))
        exposure = DeviceExposure(device, theta, issued.noises_of(device), specific)
        found[device] = LeftOutDevice(
            one.reason,
            one.since,
            exposure.operator_loss(policy, public.device_tilt),
            exposure.public_loss(public.largest_true_tilt(specific), policy),
        )
    return found
