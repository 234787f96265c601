"""The log: what changed, and who viewed what."""

from __future__ import annotations

from typing import Any

from starlette.responses import FileResponse, Response

from hushmq.console.activity.activity_log import KINDS
from hushmq.console.pages.visit import Visit

SHOWN = 200
"""Entries on the page."""


async def log_page(visit: Visit) -> Response:
    return visit.page("log.html", live="log", **_values(visit))


async def live_log_fragment(visit: Visit) -> str:
    return visit.fragment("log_body.html", **_values(visit))


def _values(visit: Visit) -> dict[str, Any]:
    show = visit.query("show", ("all", "changes", *KINDS), "changes")
    given = visit.request.query_params.get("before", "")
    before = int(given) if given.isdecimal() and len(given) < 16 else None
    activity = visit.context.activity
    found = [
        one
        for one in reversed(activity.entries)
        if (before is None or one.number < before)
        and (show in {"all", one.kind} or (show == "changes" and one.kind not in {"view", "ledger"}))
    ]
    return {
        "entries": found[:SHOWN],
        "older": found[SHOWN - 1].number if len(found) > SHOWN else None,
        "kept": len(activity.entries),
        "show": show,
        "kinds": ("changes", "all", *KINDS),
        "count": activity.count,
        "head": activity.head,
    }


async def download_log(visit: Visit) -> Response:
    """The file as it is."""
    visit.context.activity.flush()
    headers = {"Content-Disposition": 'attachment; filename="log.jsonl"'}
    return FileResponse(visit.context.config.log_file, media_type="application/x-ndjson", headers=headers)
