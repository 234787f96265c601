"""The plan: what other budgets, windows, devices and strides would buy, and a policy file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from starlette.responses import HTMLResponse, Response

from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.guess_odds import improved
from hushmq.broker.forecast.stream_plan import StreamPlan, plan_policy
from hushmq.console.pages.rollout_page import policy_attachment, propose, rollout_values
from hushmq.console.pages.visit import Visit
from hushmq.console.state.plan_choice import (
    PlanChoice,
    changed_policy,
    first_devices,
    no_stride,
    read_choice,
    renamed,
    strides_of,
)


def _policy(visit: Visit) -> Policy:
    policy = visit.context.site.public.policy
    if policy is None:
        raise Problem("no policy that ops signed is in force yet: plan the first one with hushmq plan")
    return policy


def _choice(visit: Visit, policy: Policy, given: Mapping[str, str]) -> PlanChoice:
    newest = visit.context.site.public.newest(given.get("stream", min(policy.streams)))
    return read_choice(given, policy, newest.devices if newest else 1)


async def plan_page(visit: Visit) -> Response:
    policy = _policy(visit)
    choice = _choice(visit, policy, visit.request.query_params)
    return visit.page(
        "plan.html",
        live="plan" if visit.operator else "site",
        policy=policy,
        streams=sorted(policy.streams),
        windows=sorted(policy.streams[choice.stream].windows),
        period=policy.streams[choice.stream].period_ms / 1000,
        no_stride=no_stride(policy, choice.stream),
        upload=visit.operator and visit.context.config.upload is not None,
        operator=visit.operator,
        **(rollout_values(visit.context) if visit.operator else {}),
        **await _forecast(policy, choice),
    )


async def _forecast(policy: Policy, choice: PlanChoice) -> dict[str, Any]:
    """The plan of the chosen stream as it is and as it would be; or why it cannot be."""
    why, now, then, name = "", None, None, renamed(policy, choice)

    def computed() -> tuple[StreamPlan, StreamPlan]:
        devices = dict.fromkeys(policy.streams, choice.devices)
        return (
            plan_policy(policy, devices)[choice.stream],
            plan_policy(changed_policy(policy, choice), {**devices, name: choice.devices})[name],
        )

    try:
        now, then = await to_thread.run_sync(computed)
    except Problem as problem:
        why = str(problem)
    return {
        "choice": choice,
        "before": now,
        "after": then,
        "why_not": why,
        "improved": improved,
        "renamed": name,
        "strides": strides_of(policy.streams[choice.stream]),
    }


async def plan_fragment(visit: Visit) -> Response:
    """What follows from the sliders, rendered."""
    policy = _policy(visit)
    choice = _choice(visit, policy, visit.request.query_params)
    return HTMLResponse(
        visit.fragment("plan_outcome.html", operator=visit.operator, **await _forecast(policy, choice))
    )


async def policy_file(visit: Visit) -> Response:
    """The changed policy as a file, for `hushmq policy sign` where the key of ops is."""
    policy = _policy(visit)
    return policy_attachment(changed_policy(policy, _choice(visit, policy, visit.request.query_params)))


async def propose_policy(visit: Visit) -> Response:
    """Propose what the sliders say: others read what it would change, before ops sign it."""
    form = await visit.request.form()
    policy = _policy(visit)
    given = {name: value for name, value in form.items() if isinstance(value, str)}
    first = first_devices(given.get("first", "")[:4096], policy, visit.context.site.devices)
    return propose(visit, changed_policy(policy, _choice(visit, policy, given), first))
