"""A policy's way from a proposal to every device: proposed, read, signed elsewhere, staged, published, followed."""

from __future__ import annotations

import time
from typing import Any

from starlette.responses import RedirectResponse, Response

from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem
from hushmq.console.background.upload_job import review_request, staged_policy, upload_request
from hushmq.console.pages.console_context import ConsoleContext
from hushmq.console.pages.releases_page import attachment
from hushmq.console.pages.visit import Visit
from hushmq.console.state.proposal import Proposal
from hushmq.console.state.rollout_state import rollout_state

BACK = "/plan#rollout"


def rollout_values(context: ConsoleContext) -> dict[str, Any]:
    """What is proposed, staged and on its way."""
    jobs, proposal, staged = context.jobs.last, context.proposal, context.staged
    rolled_out = context.rolled_out
    return {
        "proposal": proposal,
        "review": jobs.get("review"),
        "job": jobs.get("publish") or jobs.get("preview"),
        "staged": staged,
        "changed_in": proposal.changed_in(staged.policy) if proposal and staged else [],
        "rollout": rollout_state(context.site, rolled_out) if rolled_out and "publish" in jobs else None,
    }


async def live_plan_fragment(visit: Visit) -> str:
    """The proposal, the preview, or the roll-out, as it goes on."""
    return visit.fragment("rollout.html", **rollout_values(visit.context))


def policy_attachment(policy: Policy) -> Response:
    """A policy without a signature, as a file."""
    text = policy.model_dump_json(indent=2)
    return attachment(text.encode(), f"policy-{policy.version}.json", "application/json")


def propose(visit: Visit, policy: Policy) -> Response:
    """Keep a proposal, and have `hushmq push` say what it would change."""
    context, name = visit.context, visit.session.name
    context.proposal = Proposal(policy, name, time.time())
    context.record("upload", str(policy.version), f"proposed policy {policy.version}", who=name)
    context.jobs.start_anew("review", name, review_request(context.config, policy))
    return RedirectResponse(BACK, 303)


async def proposal_file(visit: Visit) -> Response:
    """The proposal as a file, for `hushmq policy sign` where the key of ops is."""
    if visit.context.proposal is None:
        raise Problem("nothing is proposed")
    return policy_attachment(visit.context.proposal.policy)


async def withdraw_proposal(visit: Visit) -> Response:
    """Forget the proposal."""
    proposal = visit.context.proposal
    if proposal is not None:
        words = f"withdrew the proposal of policy {proposal.policy.version} by {proposal.by}"
        visit.context.record("upload", str(proposal.policy.version), words, who=visit.session.name)
        _forget_proposal(visit.context)
    return RedirectResponse(BACK, 303)


def _forget_proposal(context: ConsoleContext) -> None:
    context.proposal = None
    context.jobs.forget("review")
    context.changes.note("job")


async def upload_policy(visit: Visit) -> Response:
    """Stage a signed policy: check whose signature it is, and have `hushmq push` say what would change."""
    form = await visit.request.form()
    given = form.get("file")
    payload = given.encode() if isinstance(given, str) else b"" if given is None else await given.read()
    context, name = visit.context, visit.session.name
    try:
        staged = staged_policy(context.config, payload)
    except Problem as problem:
        context.record("upload", "policy", f"was refused: {problem}", who=name)
        return visit.page("problem.html", status=400, words=str(problem))
    context.staged, context.rolled_out = staged, None
    words = f"staged policy {staged.policy.version}, signed by {staged.key}"
    context.record("upload", str(staged.policy.version), words, who=name)
    context.jobs.last.pop("publish", None)
    context.jobs.start_anew("preview", name, upload_request(context.config, staged, "--dry-run"))
    return RedirectResponse(BACK, 303)


async def publish_policy(visit: Visit) -> Response:
    """Publish the staged policy, as it was signed, and follow it; or forget it."""
    form, context = await visit.request.form(), visit.context
    staged, name = context.staged, visit.session.name
    if staged is None or str(form.get("digest")) != staged.digest:
        return visit.page(
            "problem.html", status=409, words="Another policy was staged since: see the preview again."
        )
    version = str(staged.policy.version)
    context.staged = None
    if form.get("what") == "publish":
        context.record("upload", version, f"published policy {version}", who=name)
        context.activity.flush()
        context.rolled_out = staged.policy
        if context.proposal is not None and context.proposal.policy == staged.policy:
            _forget_proposal(context)
        context.jobs.start("publish", name, upload_request(context.config, staged, "--yes"))
    else:
        context.record("upload", version, f"dropped policy {version}", who=name)
        context.jobs.forget("preview")
    return RedirectResponse(BACK, 303)
