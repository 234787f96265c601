"""The ledger: every entry, a check of all of it at a click, and the entries for download."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from starlette.responses import RedirectResponse, Response

from hushmq.console.pages.releases_page import attachment
from hushmq.console.pages.visit import Visit
from hushmq.console.store.release_series import ledger_rows

SHOWN = 100
"""Entries on a page."""


async def ledger_page(visit: Visit) -> Response:
    return visit.page("ledger.html", live="ledger", **await _values(visit))


async def live_ledger_fragment(visit: Visit) -> str:
    """The check and the entries, rendered again."""
    return visit.fragment("ledger_body.html", **await _values(visit))


async def _values(visit: Visit) -> dict[str, Any]:
    public = visit.context.site.public
    stream = visit.request.query_params.get("stream")
    stream = stream if stream in public.streams() else None
    given = visit.request.query_params.get("before", "")
    before = int(given) if given.isdecimal() and len(given) < 16 else None
    rows = await visit.context.database.read(
        lambda db: ledger_rows(db, stream=stream, before=before, most=SHOWN + 1)
    )
    return {
        "operator": visit.operator,
        # The check covers the operator's account: a viewer neither starts nor sees it.
        "job": visit.context.jobs.last.get("verify") if visit.operator else None,
        "rows": rows[:SHOWN],
        "older": rows[SHOWN - 1].id if len(rows) > SHOWN else None,
        "stream": stream,
        "streams": public.streams(),
        "periods": {name: public.stride_ms(name) / 1000 for name in {row.stream for row in rows}},
    }


async def verify_now(visit: Visit) -> Response:
    """Start the check in the background, and go back to the page, which shows its progress."""
    config = visit.context.config
    mark = config.mark_path
    request = {
        "database": config.database,
        "mark": None if mark is None else str(mark),
        "log": str(config.log_file),
    }
    visit.context.record("job", "verify", "started to verify the ledger and the log", who=visit.session.name)
    visit.context.activity.flush()
    visit.context.jobs.start("verify", visit.session.name, request)
    return RedirectResponse("/ledger", 303)


async def download_ledger(visit: Visit) -> Response:
    """All entries, as a table or one JSON object a line."""
    form = visit.query("format", ("csv", "jsonl"), "csv")
    rows = await visit.context.database.read(lambda db: ledger_rows(db, stream=None, before=None, most=None))
    rows.reverse()
    if form == "jsonl":
        text = "".join(json.dumps(dict(row._mapping)) + "\n" for row in rows)
        return attachment(text.encode(), "ledger.jsonl", "application/x-ndjson")
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(rows[0]._fields if rows else ())
    writer.writerows(tuple(row) for row in rows)
    return attachment(out.getvalue().encode(), "ledger.csv", "text/csv")
