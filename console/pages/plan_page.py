"""The plan: what other budgets, windows and devices would buy; a policy file; and a signed policy's way out."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
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

MOST_DEVICES = 100_000
MOST_EPSILON = 20.0


@dataclass(frozen=True, slots=True)
class Choice:
    """What the sliders say."""

    stream: str
    window: str
    operator: float
    public: float
    ticks: int
    devices: int


def _policy(visit: Visit) -> Policy:
    policy = visit.context.site.public.policy
    if policy is None:
        raise Problem("no policy that ops signed is in force yet: plan the first one with hushmq plan")
    return policy


def _choice(visit: Visit, policy: Policy) -> Choice:
    given = visit.request.query_params
    stream = visit.query("stream", policy.streams, min(policy.streams))
    mine = policy.streams[stream]
    windows = sorted(mine.windows)
    newest = visit.context.site.public.newest(stream)
    window = visit.query("window", windows, windows[0] if windows else "")
    ticks = mine.windows[window].ticks if window else 1
    return Choice(
        stream,
        window,
        _number(given.get("operator"), mine.epsilon.operator, 0.05, MOST_EPSILON),
        _number(given.get("public"), mine.epsilon.public, 0.05, MOST_EPSILON),
        round(_number(given.get("ticks"), ticks, 1, 2**40)),
        round(_number(given.get("devices"), newest.devices if newest else 1, 1, MOST_DEVICES)),
    )


def _number(text: str | None, default: float, low: float, high: float) -> float:
    """A number of the address within limits; the default where there is none."""
    try:
        found = float(text) if text else default
    except ValueError:
        return default
    return default if math.isnan(found) else min(high, max(low, found))


def changed_policy(policy: Policy, choice: Choice) -> Policy:
    """The policy with what was chosen, and the next version; raise Problem if it breaks a rule."""
    tree = policy.model_dump(mode="json")
    mine = tree["streams"][choice.stream]
    mine["epsilon"] = {"operator": choice.operator, "public": choice.public}
    if choice.window:
        mine["windows"][choice.window]["ticks"] = choice.ticks
    tree["version"] = policy.version + 1
    try:
        return Policy.model_validate_json(json.dumps(tree))
    except ValueError as error:
        raise Problem(str(error).splitlines()[-2].strip()) from None


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
        upload=visit.operator and visit.context.config.upload is not None,
        operator=visit.operator,
        job=job if visit.operator else None,
        staged=visit.context.staged if visit.operator else None,
        **await _forecast(policy, choice),
    )


async def _forecast(policy: Policy, choice: Choice) -> dict[str, Any]:
    """The plan of the chosen stream as it is and as it would be; or why it cannot be."""
    why, now, then = "", None, None

    def computed() -> tuple[StreamPlan, StreamPlan]:
        devices = dict.fromkeys(policy.streams, choice.devices)
        return (
            plan_policy(policy, devices)[choice.stream],
            plan_policy(changed_policy(policy, choice), devices)[choice.stream],
        )

    try:
        now, then = await to_thread.run_sync(computed)
    except Problem as problem:
        why = str(problem)
    return {"choice": choice, "before": now, "after": then, "why_not": why, "improved": improved}


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
