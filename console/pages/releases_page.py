"""Releases over time: one stream, window and scope, raw and smoothed, with what each cost; and for download."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

from sqlalchemy import Connection
from starlette.responses import Response

from hushmq.broker.contract.topics import COHORT, Topics
from hushmq.calibrator.ledger.archived_releases import archive_records, archived_in_words
from hushmq.console.charts.share_chart import share_chart
from hushmq.console.pages.visit import Visit
from hushmq.console.store.release_groups import GroupedReleases, grouped_releases
from hushmq.console.store.release_series import last_payloads, payloads_between

SPANS: dict[str, tuple[str, int | None]] = {
    "48": ("last 48", 48),
    "168": ("last 168", 168),
    "720": ("last 720", 720),
    "all": ("all", None),
}
"""How many releases are drawn."""
ENTRY = re.compile("[0-9]{1,15}")
"""The number of a ledger entry in an address."""
LISTED = 50
"""Releases in the table below the picture."""


async def releases_page(visit: Visit) -> Response:
    return visit.page("releases.html", live="releases", **await _values(visit))


async def live_releases_fragment(visit: Visit) -> str:
    """The picture and the table, drawn again."""
    return visit.fragment("releases_body.html", **await _values(visit))


def _choice(visit: Visit) -> tuple[str, str, str] | None:
    """The stream, window and scope that are asked for, or the first there are."""
    known = sorted(
        visit.context.site.public.releases, key=lambda one: (one[0], one[1], one[2] != COHORT, one[2])
    )
    given = visit.request.query_params
    for key in known:
        asked = given.get("stream", key[0]), given.get("window", key[1]), given.get("scope", COHORT)
        if key == asked:
            return key
    return next((key for key in known if key[0] == given.get("stream", key[0])), None)


async def _values(visit: Visit) -> dict[str, Any]:
    public, choice = visit.context.site.public, _choice(visit)
    span = visit.query("span", SPANS, "168")
    part = _part(visit)
    found: GroupedReleases | None = None
    if choice is not None:
        topic = Topics(visit.context.config.cohort).release(*choice)

        def read(db: Connection) -> GroupedReleases | None:
            payloads = (
                payloads_between(db, topic, *part) if part else last_payloads(db, topic, SPANS[span][1])
            )
            return grouped_releases(payloads, LISTED)

        found = await visit.context.database.read(read)
    archived = await visit.context.database.read(lambda db: archived_in_words(archive_records(db)))
    states = found.newest.states if found else ()
    state = visit.query("state", states, states[-1] if states else "")
    stream = choice[0] if choice else ""
    tick_s = public.stride_ms(stream) / 1000
    return {
        "choice": choice,
        "streams": sorted({one[0] for one in public.releases}),
        "windows": sorted({one[1] for one in public.releases if one[0] == stream}),
        "scopes": sorted(
            {one[2] for one in public.releases if choice and one[:2] == choice[:2]}, key=_cohort_first
        ),
        "states": states,
        "state": state,
        "spans": SPANS,
        "span": span,
        "part": part,
        "found": found,
        "archived": archived,
        "index": states.index(state) if found else 0,
        "tick_s": tick_s,
        "stride": public.stride(stream),
        "chart": share_chart(found.groups, states.index(state), tick_s).markup() if found else None,
    }


def _part(visit: Visit) -> tuple[int, int] | None:
    """The first and the last ledger entry of the part of the picture that is asked for; None for a span."""
    first, last = (visit.request.query_params.get(name, "") for name in ("from", "to"))
    if not (ENTRY.fullmatch(first) and ENTRY.fullmatch(last)):
        return None
    return int(first), int(last)


def _cohort_first(scope: str) -> tuple[bool, str]:
    return scope != COHORT, scope


async def download_releases(visit: Visit) -> Response:
    """All releases of a stream, window and scope: the published messages, one a line, or a table."""
    choice = _choice(visit)
    form = visit.query("format", ("jsonl", "csv"), "csv")
    if choice is None:
        return visit.page("problem.html", status=404, words="There is no such release.")
    topic = Topics(visit.context.config.cohort).release(*choice)
    payloads = await visit.context.database.read(lambda db: last_payloads(db, topic, None))
    text = b"\n".join([*payloads, b""]) if form == "jsonl" else _table(payloads).encode()
    return attachment(
        text, f"{'-'.join(choice)}.{form}", "text/csv" if form == "csv" else "application/x-ndjson"
    )


def attachment(content: bytes, name: str, kind: str) -> Response:
    """A file to be saved."""
    return Response(
        content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def _table(payloads: list[bytes]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    columns = ("entry", "first", "last", "devices", "ticks", "scale", "loss", "budget")
    each = ("frequency", "standard_error", "low", "high", "smoothed", "smoothed_low", "smoothed_high")
    writer.writerow([*columns, "state", *each])
    for payload in payloads:
        one = json.loads(payload)
        for n, state in enumerate(one["states"]):
            smoothed = (
                [one["smoothed"][n], *one["smoothed_intervals"][n]] if one.get("smoothed") else [""] * 3
            )
            found = [one["frequencies"][n], one["standard_errors"][n], *one["intervals"][n], *smoothed]
            writer.writerow([*(one[name] for name in columns), state, *found])
    return out.getvalue()
