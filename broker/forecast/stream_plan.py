"""What can be had of a stream under a policy: noise, losses, the error of every window, traffic.

Shown by `hushmq plan` and `hushmq push`, and by whoever else shows a policy. Nothing here needs a broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.account_forecast import forecast_accounts
from hushmq.broker.forecast.guess_odds import odds_in_words
from hushmq.broker.forecast.message_traffic import Traffic, traffic
from hushmq.broker.forecast.policy_forecast import Forecast
from hushmq.broker.forecast.window_forecast import WindowForecast, window_forecasts


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """One stream on so many devices: at first, under Θ's start, and at best, when Θ is learned down to its floor."""

    policy: StreamPolicy
    """As its account prices it."""
    devices: int
    first: Forecast | None
    """Before anything is learned; None where nothing can be published then."""
    first_windows: tuple[WindowForecast, ...]
    why_not: str | None
    """Why nothing can be published at first."""
    best: Forecast | None
    best_windows: tuple[WindowForecast, ...]
    traffic: Traffic

    def odds(self) -> dict[str, str]:
        """Return what the budgets mean for each audience, in words."""
        return {
            "operator": odds_in_words(self.policy.epsilon.operator),
            "public": odds_in_words(self.policy.epsilon.public),
        }

    def warnings(self) -> list[str]:
        """Return a sentence for every window that would tell less than no data, even when Θ is learned."""
        return [tells_nothing(one, self.devices) for one in self.best_windows if not one.tells]

    def as_tree(self) -> dict[str, Any]:
        """Return the plan as JSON-compatible values."""
        return {
            "devices": self.devices,
            "first": None if self.first is None else self.first.as_tree(),
            "first_windows": [one.as_tree() for one in self.first_windows],
            "why_not": self.why_not,
            "best": None if self.best is None else self.best.as_tree(),
            "best_windows": [one.as_tree() for one in self.best_windows],
            "traffic": self.traffic.as_tree(),
            "odds": self.odds(),
            "warnings": self.warnings(),
        }


def plan_policy(policy: Policy, devices: Mapping[str, int]) -> dict[str, StreamPlan]:
    """Return the plan of every stream of a policy, given on how many devices each runs.

    Raises Problem where nothing could be published even with Θ at its floor.
    """
    best = forecast_accounts(
        policy, {name: one.theta.floor.chains for name, one in policy.streams.items()}, devices
    )
    try:
        first = forecast_accounts(
            policy, {name: one.theta.start.chains for name, one in policy.streams.items()}, devices
        )
        why_not = None
    except Problem as problem:
        first, why_not = {}, str(problem)
    found = {}
    for name, one in best.items():
        priced, number = one.account.policy, devices[name]
        now = first[name].after if name in first else None
        found[name] = StreamPlan(
            policy=priced,
            devices=number,
            first=now,
            first_windows=() if now is None else window_forecasts(priced, now, devices=number),
            why_not=why_not,
            best=one.after,
            best_windows=window_forecasts(priced, one.after, devices=number),
            traffic=traffic(priced, stream=name),
        )
    return found


def tells_nothing(one: WindowForecast, devices: int) -> str:
    """Return the warning about a window that tells less than no data."""
    whose = f"the cohort of {devices}" if one.scope == "cohort" else "a device"
    return (
        f"window {one.window} for {whose} tells less than no data: ±{one.half_width:.2g} on a share "
        "between 0 and 1; take a longer window, more devices or a larger ε, or publish less often"
    )
