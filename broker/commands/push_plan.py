"""What a pushed policy changes: forecasts of every stream under the policy in force and under the new one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hushmq.broker.commands.rollout import Received
from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import ThetaMessage
from hushmq.broker.forecast.account_forecast import AccountForecast, forecast_accounts
from hushmq.broker.forecast.policy_forecast import Forecast, forecast
from hushmq.pufferfish.protocols import Theta

Plan = dict[str, tuple[Forecast | None, AccountForecast]]
"""By stream the forecast of what is in force, if something is, and of what a policy would bring."""


def devices_of(policy: Policy, received: Received) -> dict[str, int]:
    """Return on how many devices each stream of a policy runs."""
    statuses = received.statuses.values()
    return {name: sum(name in status.streams for status in statuses) for name in policy.streams}


def plan_streams(policy: Policy, received: Received) -> Plan:
    """Return for each stream the forecast under the present policy, if there is one, and under the new policy."""
    was = priced_streams(received.policy) if received.policy else {}
    before: dict[str, Forecast] = {}
    thetas: dict[str, Theta] = {}
    devices = devices_of(policy, received)
    for name, stream in policy.streams.items():
        old = was[name].policy if name in was else None
        setting = received.settings.get(name)
        if old is not None and setting is not None:
            # Where the old policy can no longer be kept, a new one must still be possible to push.
            with suppress(Problem):
                theta, noise = setting.theta.chains, setting.noise.noise
                before[name] = forecast(old, theta, devices=devices[name], noise=noise)
        stated = received.policy.streams.get(name) if received.policy else None
        same = (
            stated is not None
            and stated.theta.start == stream.theta.start
            and new_epoch(stated, stream) is None
        )
        thetas[name] = _hull(
            setting.theta if setting is not None and same else stream.theta.start, stream.theta.floor
        )
    return {name: (before.get(name), one) for name, one in forecast_accounts(policy, thetas, devices).items()}


def _hull(learned: ThetaMessage, floor: ThetaMessage) -> Theta:
    """Return Θ right after the change: the hull of the learned Θ (or the new start) and the floor."""
    if type(learned) is not type(floor) or learned.k != floor.k:
        raise Problem("the setting in force is for another number of states than the policy in force")
    # Values of one class have a hull, whichever class it is.
    theta: Any = learned.chains
    hull: Theta = theta.hull(floor.chains)
    return hull


def repriced_pasts(plan: Plan, received: Received) -> dict[str, Forecast]:
    """Return the forecasts of what is in force under the Θ of the new policy, where that is another one."""
    was = priced_streams(received.policy) if received.policy else {}
    found = {}
    for name, (before, one) in plan.items():
        setting = received.settings.get(name)
        if before is None or setting is None or one.after.theta == before.theta:
            continue
        with suppress(Problem):
            found[name] = forecast(was[name].policy, one.after.theta, devices=1, noise=setting.noise.noise)
    return found


def new_epoch(old: StreamPolicy, new: StreamPolicy) -> str | None:
    """Why a policy begins a new epoch of a stream, in words; None if it does not."""
    if old.meaning != new.meaning:
        parts = ("states", "discretiser", "stand_in_state", "period_ms", "source")
        names = [one.removesuffix("_state") for one in parts if getattr(old, one) != getattr(new, one)]
        return f"the states mean something else ({', '.join(names)})"
    if old.epoch < new.epoch:
        return f"ops begin epoch {new.epoch}"
    return None
