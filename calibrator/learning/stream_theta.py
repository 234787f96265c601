"""Θ of a stream as its policy wants it: the start, narrowed by what is learned, with the misfit covered.

The start is what the policy asserts of the chains at all lags. What is learned, and what the misfit makes of it, is cut
to the start, and widens it only where it clearly excludes it: Θ then holds both. It always contains the floor. As long
as a large misfit could be undetected, Θ keeps all chains that one would bring back: detected later, it would otherwise
put what was released in the meantime over budget. For first-order chains that is the whole start, for listed chains
with regimes those that are slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.learning.charged_statistics import fit_since
from hushmq.calibrator.learning.learned_theta import read_cohort, read_learned
from hushmq.calibrator.learning.learning_progress import Covering, Progress, read_progress
from hushmq.calibrator.learning.robust_fit import TOLERATED
from hushmq.calibrator.learning.update_schedule import block_of, misfit_error
from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.roster.left_out import left_out
from hushmq.pufferfish.protocols import Region, Theta

if TYPE_CHECKING:
    from hushmq.calibrator.models.misfit import Misfit

MOST_UNDETECTABLE = 0.1
"""Slow chains are not given up before an excess of this much correlation over long lags would have been detected."""


def theta_of_stream(db: Connection, stream: str, policy: StreamPolicy) -> Theta:
    """Θ of any device of the cohort, under the policy."""
    model = model_of(policy)
    start, floor = model.start(policy), model.floor(policy)
    return cohort_theta(db, stream, model, start=start, floor=floor, misfit=policy.misfit)


def thetas_of_devices(db: Connection, stream: str, policy: StreamPolicy) -> Mapping[str, Theta]:
    """Θ of every device with evidence of its own, under the policy; any other has the cohort's.

    Devices that are left out have the start: what the cohort taught is not about them.
    """
    model = model_of(policy)
    start, floor = model.start(policy), model.floor(policy)
    found = device_thetas(db, stream, model, start=start, floor=floor, misfit=policy.misfit)
    return found | dict.fromkeys(left_out(db, stream), start.hull(floor))


def beyond_start(db: Connection, stream: str, policy: StreamPolicy) -> dict[str, Theta]:
    """Devices whose own Θ is not within the policy's start and the cohort's Θ together: their promise cannot be kept.

    Without the misfit, which is the cohort's. None where they are more than a fit tolerates: then it is the policy's
    start that is wrong.
    """
    model = model_of(policy)
    start, floor = model.start(policy), model.floor(policy)
    whole = cohort_theta(db, stream, model, start=start, floor=floor, misfit="report")
    known = device_thetas(db, stream, model, start=start, floor=floor, misfit="report")
    possible = start.hull(floor).hull(whole)
    found = {device: theta for device, theta in known.items() if not possible.contains(theta)}
    return found if len(found) <= TOLERATED * len(known) else {}


def misfit_of_stream(db: Connection, stream: str, model: AnyModel) -> Misfit | None:
    """The misfit in the statistics that are kept, for the report; None before there is enough evidence."""
    found = fit_since(db, stream, model, since=0)
    block = block_of(read_progress(db, stream).windows)
    return None if found is None else found.misfit(misfit_error(block))


def cohort_theta(
    db: Connection, stream: str, model: AnyModel, *, start: Theta, floor: Theta, misfit: Covering = "cover"
) -> Theta:
    """Θ of any device of the cohort, with this start and floor."""
    now = read_progress(db, stream).to_cover(misfit)
    return _theta(read_cohort(db, stream, model), model, start=start, floor=floor, now=now)


def device_thetas(
    db: Connection, stream: str, model: AnyModel, *, start: Theta, floor: Theta, misfit: Covering = "cover"
) -> dict[str, Theta]:
    """Θ of every device with evidence of its own, shrunk towards the cohort's as far as that evidence is thin."""
    now = read_progress(db, stream).to_cover(misfit)
    learned = read_learned(db, stream, model)
    return {
        device: _theta(theta, model, start=start, floor=floor, now=now)
        for device, theta in learned.devices.items()
    }


def _theta(learned: Region | None, model: AnyModel, *, start: Theta, floor: Theta, now: Progress) -> Theta:
    if learned is None:
        return start.hull(floor)
    theta: Theta = model.within(start, learned)
    if any(now.persistent_shares):
        theta = theta.hull(model.within(start, model.slowed(learned, now.persistent_shares)))
    if now.undetectable > MOST_UNDETECTABLE:
        theta = theta.hull(model.while_hidden(start, learned))
    return theta.hull(floor)
