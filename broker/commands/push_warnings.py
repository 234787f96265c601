"""What a policy would do that nobody may have meant: another key, states renamed in place, a past over its budget."""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.broker.commands.rollout import Received
from hushmq.broker.contract.messages import LedgerState
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.policy_forecast import Forecast


@dataclass(frozen=True, slots=True)
class Left:
    """The rest of an audience's budget before and after a policy, for what is published already."""

    audience: str
    before: float
    after: float
    repriced: bool
    """Whether the new policy's Θ prices the past: then `after` is the least that can be left."""

    @property
    def words(self) -> str:
        return f"left for {'operators' if self.audience == 'operator' else 'the public'}"


def what_is_left(ledger: LedgerState, stream: StreamPolicy, past: Forecast | None) -> list[Left]:
    """Return what is left of each budget under a policy, as the stream's account prices it.

    Args:
        ledger: The accounts as they stand, under the Θ of the present policy.
        stream: The new policy.
        past: The noise and the windows in force, priced under the new Θ; None where Θ stays as it is. What they lose
            if they had gone on for ever bounds what they have lost.
    """
    found = []
    for audience, account in (("operator", ledger.operator), ("public", ledger.public)):
        loss = account.loss if past is None else getattr(past, audience)
        if past is not None and not account.loss:
            loss = 0.0  # nothing was published to this audience
        found.append(
            Left(audience, account.left, getattr(stream.epsilon, audience) - loss, repriced=past is not None)
        )
    return found


def check_key(key_id: str, received: Received, *, new_key: bool) -> None:
    """Raise Problem if another key signed the policy in force, unless that is meant: devices may not know this one."""
    if received.policy_key is not None and received.policy_key != key_id and not new_key:
        raise Problem(
            f"--key: {key_id} is another key than {received.policy_key}, which signed the policy in force: devices "
            "that do not list it in trust.ops_keys would refuse the policy, and new ones would get none; give "
            "--new-key once it is listed everywhere"
        )


def renamed_in_place(old: StreamPolicy, new: StreamPolicy) -> str | None:
    """Return a warning if the same names stand in another order, so that each means what another one meant."""
    if old.states == new.states or sorted(old.states) != sorted(new.states):
        return None
    if old.discretiser != new.discretiser or new.discretiser.kind == "labels":
        return None
    moved = [f"{was} is called {now}" for was, now in zip(old.states, new.states, strict=True) if was != now]
    return f"the same values get each other's names: what was {', what was '.join(moved)} from now on"
