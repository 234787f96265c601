"""The plan: what other budgets, windows and devices would buy; a policy file; and a signed policy's way out."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.guess_odds import improved
from hushmq.broker.forecast.stream_plan import StreamPlan, plan_policy
from hushmq.console.background.upload_job import staged_policy, upload_request
from hushmq.console.pages.releases_page import attachment
from hushmq.console.pages.visit import Visit
from hushmq.console.state.plan_choice import (
    PlanChoice,
    changed_policy,
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


def _choice(visit: Visit, policy: Policy) -> PlanChoice:
    given = dict(visit.request.query_params)
    newest = visit.context.site.public.newest(given.get("stream", min(policy.streams)))
    return read_choice(given, policy, newest.devices if newest else 1)


async def plan_page(visit: Visit) -> Response:
    policy = _policy(visit)
    choice = _choice(visit, policy)
    job = visit.context.jobs.last.get("publish") or visit.context.jobs.last.get("preview")
    return visit.page(
        "plan.html",
        live="plan" if visit.operator else "site",
        policy=policy,
        streams=sorted(policy.streams),
        windows=sorted(policy.streams[choice.stream].windows),
        period=policy.streams[choice.stream].period_ms / 1000,
        strides=strides_of(policy.streams[choice.stream]),
        no_stride=no_stride(policy, choice.stream),
        upload=visit.operator and visit.context.config.upload is not None,
        operator=visit.operator,
        job=job if visit.operator else None,
        staged=visit.context.staged if visit.operator else None,
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
    }


async def plan_fragment(visit: Visit) -> Response:
    """What follows from the sliders, rendered."""
    policy = _policy(visit)
    choice = _choice(visit, policy)
    return HTMLResponse(visit.fragment("plan_outcome.html", **await _forecast(policy, choice)))


async def policy_file(visit: Visit) -> Response:
    """The changed policy as a file, for `hushmq policy sign` where the key of ops is."""
    policy = changed_policy(_policy(visit), _choice(visit, _policy(visit)))
    text = policy.model_dump_json(indent=2)
    return attachment(text.encode(), f"policy-{policy.version}.json", "application/json")


async def live_plan_fragment(visit: Visit) -> str:
    """The preview, or the roll-out, as it goes on."""
    jobs = visit.context.jobs.last
    job = jobs.get("publish") or jobs.get("preview")
    return visit.fragment("rollout.html", job=job, staged=visit.context.staged)


async def upload_policy(visit: Visit) -> Response:
    """Stage a signed policy: check whose signature it is, and have `hushmq push` say what would change."""
    form = await visit.request.form()
    given = form.get("file")
    payload = given.encode() if isinstance(given, str) else b"" if given is None else await given.read()
    try:
        staged = staged_policy(visit.context.config, payload)
    except Problem as problem:
        visit.context.record("upload", "policy", f"was refused: {problem}", who=visit.session.name)
        return visit.page("problem.html", status=400, words=str(problem))
    visit.context.staged = staged
    words = f"staged policy {staged.policy.version}, signed by {staged.key}"
    visit.context.record("upload", str(staged.policy.version), words, who=visit.session.name)
    visit.context.jobs.last.pop("publish", None)
    visit.context.jobs.start(
        "preview", visit.session.name, upload_request(visit.context.config, staged, "--dry-run")
    )
    return RedirectResponse("/plan#rollout", 303)


async def publish_policy(visit: Visit) -> Response:
    """Publish the staged policy, as it was signed, and follow it; or forget it."""
    form, staged = await visit.request.form(), visit.context.staged
    if staged is None or str(form.get("digest")) != staged.digest:
        return visit.page(
            "problem.html", status=409, words="Another policy was staged since: see the preview again."
        )
    version = str(staged.policy.version)
    visit.context.staged = None
    if form.get("what") == "publish":
        visit.context.record("upload", version, f"published policy {version}", who=visit.session.name)
        visit.context.activity.flush()
        visit.context.jobs.start(
            "publish", visit.session.name, upload_request(visit.context.config, staged, "--yes")
        )
    else:
        visit.context.record("upload", version, f"dropped policy {version}", who=visit.session.name)
        visit.context.jobs.last.pop("preview", None)
    return RedirectResponse("/plan#rollout", 303)
