"""The promise: who is promised what, against whom, on which assumption, with the evidence, and what is left out."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from starlette.responses import RedirectResponse, Response

from hushmq.broker.contract.account_share import account_loss, priced_streams
from hushmq.broker.contract.disclosure_seal import disclosed_bytes
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import Signed
from hushmq.broker.contract.topics import COHORT, Topics
from hushmq.broker.forecast.guess_odds import improved
from hushmq.console.charts.promise_charts import instant_chart, loss_chart, misfit_chart
from hushmq.console.charts.theta_charts import Issued, coverage_chart, moves, regime_chart, theta_chart
from hushmq.console.pages.releases_page import attachment
from hushmq.console.pages.visit import Visit
from hushmq.console.state.leaving_chances import transition_table
from hushmq.console.store.release_series import read_series, setting_rows
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

RELEASES, DRAWN = 10_000, 600
"""The last releases, and the losses of how many of them are drawn."""
SETTINGS = 40
"""Settings whose Θ and loss are drawn."""
EVIDENCE_S = 3600.0
"""The evidence is computed again after so many seconds at the earliest, for whoever opens the page."""
GUESSES = (0.5, 0.6, 0.8, 0.95)


async def promise_page(visit: Visit) -> Response:
    policy = visit.context.site.public.policy
    if policy is None:
        return visit.page("problem.html", status=503, words="No policy that ops signed is in force yet.")
    return visit.page("promise.html", live="promise", **await _values(visit, policy))


async def live_promise_fragment(visit: Visit) -> str:
    """The whole document, as it is now."""
    policy = visit.context.site.public.policy
    return "" if policy is None else visit.fragment("promise_body.html", **await _values(visit, policy))


async def _values(visit: Visit, policy: Policy) -> dict[str, Any]:
    stream = visit.query("stream", policy.streams, min(policy.streams))
    public = visit.context.site.public
    priced = await to_thread.run_sync(lambda: priced_streams(policy)[stream])
    mine, tick_s = priced.policy, public.stride_ms(stream) / 1000
    newest = public.newest(stream)
    window = newest.window if newest else None
    topic = Topics(policy.cohort).release(stream, window, COHORT) if window else ""
    (points, count), rows = await visit.context.database.read(
        lambda db: (read_series(db, topic, RELEASES, DRAWN), setting_rows(db, stream)[-SETTINGS:])
    )
    settings: list[Issued] = [
        (row.issued * tick_s, Signed[NoiseSetting].model_validate_json(row.payload).message) for row in rows
    ]
    budgets = {"the public": mine.epsilon.public}
    operator: list[tuple[float, float]] = []
    if visit.operator:
        budgets = {"operators": mine.epsilon.operator, **budgets}
        operator = await to_thread.run_sync(_operator_losses, settings, mine, policy.version)
    current = public.settings.get(stream)
    thetas = {
        name: (public.settings[name].theta if name in public.settings else one.theta.start).chains
        for name, one in policy.streams.items()
    }
    start = policy.streams[stream].theta.start.chains
    theta = None if current is None else current.theta.chains
    drawn = {
        "losses": loss_chart(points, count, tick_s, budgets, operator) if points else None,
        "theta_drawn": theta_chart(
            settings, mine.states, newest.last * tick_s if newest else settings[-1][0] if settings else 0.0
        ),
        "regimes_drawn": regime_chart(
            start, theta if isinstance(theta, RegimeTheta) else None, mine.states, mine.period_ms / 1000
        )
        if isinstance(start, RegimeTheta)
        else None,
    }
    devices = newest.devices if newest else 1
    forecast = (
        await visit.context.forecasts.of(policy, stream, thetas, devices)
        if policy.streams[stream].windows
        else []
    )
    return {
        "operator": visit.operator,
        "policy": policy,
        "stream": stream,
        "streams": sorted(policy.streams),
        "mine": mine,
        "shared": [] if priced.alone else [one for one in priced.members if one != stream],
        "newest": newest,
        "ledger": visit.context.site.ledgers.get(stream) if visit.operator else None,
        "theta": theta,
        "floor": policy.streams[stream].theta.floor.chains,
        "start": start,
        "transitions": transition_table(theta or start),
        "noise": None if current is None else current.noise.noise,
        "guesses": GUESSES,
        "improved": improved,
        **{name: None if one is None else one.markup() for name, one in drawn.items()},
        "moves": moves(mine.states),
        **_evidence(visit, stream, mine, tick_s, budgets),
        "what_if": forecast,
        "devices": devices,
        "disclosed": _disclosure(visit) is not None,
        "period": tick_s,
        "now": time.time(),
    }


def _evidence(
    visit: Visit, stream: str, mine: StreamPolicy, tick_s: float, budgets: Mapping[str, float]
) -> dict[str, Any]:
    """What the background job found for the stream, drawn; nothing for viewers."""
    job = visit.context.jobs.last.get("evidence") if visit.operator else None
    said = visit.context.evidence if visit.operator else {}
    found, losses = said.get(stream), said.get(f"losses of {stream}")
    misfit = misfit_chart(found["bands"]) if found else None
    instants = instant_chart(losses["losses"], tick_s, budgets) if losses else None
    covered = [
        coverage_chart(bounds, [(name, own[n]) for name, own in found["by_device"]], words)
        for n, (bounds, words) in enumerate(zip(found["theta"], moves(mine.states), strict=False))
    ] if found else []  # fmt: skip
    return {
        "job": job,
        "evidence": found,
        "misfit_drawn": misfit.markup() if misfit else None,
        "instants_drawn": instants.markup() if instants else None,
        "coverage_drawn": [one.markup() for one in covered if one is not None],
    }


def _operator_losses(settings: list[Issued], policy: StreamPolicy, version: int) -> list[tuple[float, float]]:
    """What operators learn at most of an instant if a setting is used for ever, setting by setting."""
    added = policy.device_window_tilt
    found = []
    for since, one in settings:
        if one.policy == version:
            tau0, tau1 = one.noise.noise.tilts
            found.append((since, account_loss(one.theta.chains, tau0 + added, tau1 + added, policy)))
    return found


async def gather_evidence(visit: Visit) -> Response:
    """Compute the evidence in the background, and go back."""
    form = await visit.request.form()
    visit.context.record("job", "evidence", "started to compute the evidence for Θ", who=visit.session.name)
    _start_evidence(visit)
    return RedirectResponse(f"/promise?stream={str(form.get('stream', ''))[:64]}#evidence", 303)


def keep_evidence(visit: Visit) -> None:
    """Compute the evidence for an operator who has the page open, if there is none or it is an hour old."""
    job = visit.context.jobs.last.get("evidence")
    if job is None or (job.ended is not None and time.time() - job.ended > EVIDENCE_S):
        _start_evidence(visit)


def _start_evidence(visit: Visit) -> None:
    visit.context.jobs.start("evidence", visit.session.name, {"database": visit.context.config.database})


def _disclosure(visit: Visit) -> dict[str, Any] | None:
    """The disclosure that the calibrator's command wrote, if its seal is of a key that is trusted here."""
    path = visit.context.config.disclosure_file
    if path is None or not path.is_file():
        return None
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
        seal = str(tree.pop("seal"))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None
    if not any(key.sealed(disclosed_bytes(tree), seal) for key in visit.context.config.keys.calibrators):
        return None
    return {**tree, "seal": seal}


async def download_disclosure(visit: Visit) -> Response:
    """The sealed disclosure, as the calibrator's command wrote it."""
    found = _disclosure(visit)
    if found is None:
        raise Problem(
            "disclosure_file: there is no disclosure sealed by a calibrator's key that is trusted here"
        )
    return attachment(
        json.dumps(found, ensure_ascii=False, indent=2).encode(), "disclosure.json", "application/json"
    )
