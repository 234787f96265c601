"""What streams that share an account cost each other, computed before a policy is pushed, and said in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from hushmq.broker.contract.account_share import PricedStream, priced_streams
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.policy_forecast import Forecast, forecast
from hushmq.pufferfish.protocols import Theta


@dataclass(frozen=True, slots=True)
class AccountForecast:
    """The consequences of a policy for one stream within its account, and what they would be without the others."""

    account: PricedStream
    after: Forecast
    alone: Forecast | None
    """As if the stream were independent and its device in no group; None where it is, or where nothing is possible."""

    def as_tree(self) -> dict[str, Any] | None:
        """Return whose account it is as JSON-compatible values; None where it is the stream's own."""
        if self.account.alone:
            return None
        return {
            "streams": list(self.account.members),
            "devices": self.account.devices,
            "share": self.account.policy.tilt_share,
            "epsilon": self.account.policy.epsilon.model_dump(),
            "alone": None if self.alone is None else self.alone.as_tree(),
        }

    def in_words(self) -> list[str]:
        """Return lines for people; none where the account is the stream's own."""
        account, policy = self.account, self.account.policy
        if account.alone:
            return []
        group = f" on each of {account.devices} devices of a group" if account.devices > 1 else ""
        names = ", ".join(account.members)
        budgets = f"ε {policy.epsilon.operator:g} and {policy.epsilon.public:g}"
        lines = [f"    one account: {names}{group}; {budgets}, its share {policy.tilt_share:.4g} of the tilt"]
        if self.alone is not None:
            lines.append(
                f"    if it shared nothing: noise {self.alone.noise.in_words()}, "
                f"error of an hourly histogram ±{self.alone.hourly_error:.4f}"
            )
        return lines


def forecast_accounts(
    policy: Policy, thetas: Mapping[str, Theta], devices: Mapping[str, int]
) -> dict[str, AccountForecast]:
    """Return the consequences for every stream, given the Θ of each and on how many devices it runs."""
    found = {}
    for name, account in priced_streams(policy).items():
        members: list[Any] = [thetas[member] for member in account.members]
        theta: Theta = reduce(lambda one, other: one.hull(other), members)
        try:
            after = forecast(account.policy, theta, devices=devices[name])
        except Problem as problem:
            if account.alone:
                raise
            raise Problem(f"{problem}; {name} is one account with {_others(account)}") from None
        found[name] = AccountForecast(account, after, _alone(policy, account, thetas[name], devices[name]))
    return found


def matched_states(policy: Policy) -> list[str]:
    """Return a line that says which states the streams of the joined account are taken to have in common."""
    joined = {name: one for name, one in policy.streams.items() if one.joined}
    if len(joined) < 2:
        return []
    named = "; ".join(
        f"{name}: {', '.join(one.states[:4])}{' …' * (len(one.states) > 4)}" for name, one in joined.items()
    )
    return [
        f"  NOTE: {len(joined)} streams are priced as if they followed one state, matched in this order: {named}"
    ]


def _alone(policy: Policy, account: PricedStream, theta: Theta, devices: int) -> Forecast | None:
    if account.alone:
        return None
    own = policy.streams[account.name].model_copy(update={"share": None})
    try:
        return forecast(own, theta, devices=devices)
    except Problem:
        return None


def _others(account: PricedStream) -> str:
    names = ", ".join(account.others) or "itself"
    return names if account.devices == 1 else f"{names} on {account.devices} devices"
