"""The evidence for Θ, and what instants have lost, stream by stream: for the pictures of the Promise page.

It is computed from charged statistics and from the ledger, never from states. For operators only: what single devices
were found to be, and what the noisy stream tells, is no part of what the public may know.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.learning.learning_progress import read_progress
from hushmq.calibrator.learning.stream_theta import misfit_of_stream, theta_of_stream, thetas_of_devices
from hushmq.calibrator.ledger.instant_losses import instant_losses
from hushmq.calibrator.ledger.ledger_report import stored_policy, streams
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.models.misfit import UNSEEN
from hushmq.calibrator.roster.left_out import left_out
from hushmq.console.state.leaving_chances import leaving_chances

DEVICES = 400
"""Devices whose own Θ is drawn; all are counted."""


def gather_evidence(db: Connection, _: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One object for the evidence of each stream, one for its losses, and one when it is done."""
    policy = stored_policy(db)
    names = streams(db)
    yield {"streams": names}
    for name in names:
        if policy is not None and name in policy.streams:
            yield {"stream": name, "at": time.time(), **_of_stream(db, name, policy.streams[name])}
            losses = instant_losses(db, policy, name)
            found = [(one.first, one.last, one.public, one.operator) for one in losses]
            yield {"losses_of": name, "losses": found}
        yield {"done": name}


def _of_stream(db: Connection, stream: str, policy: StreamPolicy) -> dict[str, Any]:
    misfit = misfit_of_stream(db, stream, model_of(policy))
    bands = [one for one in (misfit.bands if misfit else ()) if one.error < UNSEEN]
    theta, apart = theta_of_stream(db, stream, policy), left_out(db, stream)
    learned = thetas_of_devices(db, stream, policy)
    devices = {name: one for name, one in learned.items() if name not in apart}
    drawn = sorted(devices.items())[:DEVICES]
    return {
        "bands": [
            {"first": one.first, "last": one.last, "seen": one.seen, "fitted": one.fitted, "error": one.error}
            for one in bands
        ],
        "hidden": read_progress(db, stream).undetectable,
        "theta": leaving_chances(theta),
        "devices": len(devices),
        "left_out": len(apart),
        "inside": sum(theta.contains(one) for one in devices.values()),
        "by_device": [[name, leaving_chances(one)] for name, one in drawn],
    }
