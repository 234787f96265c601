"""The first page: is everything well, in one view. A viewer's has what was published, and nothing else."""

from __future__ import annotations

import time
from typing import Any

from starlette.responses import Response

from hushmq.console.pages.console_context import ConsoleContext
from hushmq.console.pages.visit import Visit
from hushmq.console.state.alarms import alarms, window_states
from hushmq.console.state.device_rows import device_rows


async def site_page(visit: Visit) -> Response:
    if not visit.operator:
        return visit.page("public_site.html", live="site", **public_site_values(visit.context))
    return visit.page("site.html", live="site", **await site_values(visit.context))


async def live_site_fragment(visit: Visit) -> str:
    """The part of the page that changes."""
    if not visit.operator:
        return visit.fragment("public_site_body.html", **public_site_values(visit.context))
    return visit.fragment("site_body.html", **await site_values(visit.context))


async def site_values(context: ConsoleContext) -> dict[str, Any]:
    """What the page shows an operator."""
    facts, site, now = await context.fresh_facts(), context.site, time.time()
    rows = device_rows(site, facts.devices)
    windows = window_states(site, facts.closed)
    return {
        "alarms": alarms(
            site,
            rows,
            windows,
            health=context.health,
            database_error=facts.error,
            grace_s=context.config.grace_s,
            now=now,
        ),
        "site": site,
        "public": site.public,
        "windows": windows,
        "grace_s": context.config.grace_s,
        "health": context.health,
        "devices": len(rows),
        "online": sum("online" in row.marks for row in rows),
        "counts": {
            mark: sum(mark in row.marks for row in rows)
            for mark in ("offline", "behind", "refusing", "quarantined", "dropping")
        },
        "buffered": sum(row.buffered for row in rows),
        "now": now,
    }


def public_site_values(context: ConsoleContext) -> dict[str, Any]:
    """What the page shows a viewer: made of the public site alone."""
    return {"public": context.site.public}
