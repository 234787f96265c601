"""The table of devices, and the page of one."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from starlette.responses import Response

from hushmq.console.charts.device_charts import device_charts
from hushmq.console.pages.console_context import ConsoleContext
from hushmq.console.pages.visit import Visit
from hushmq.console.state.device_record import DeviceRecord
from hushmq.console.state.device_rows import (
    DESCENDING,
    FILTERS,
    SORTS,
    DeviceRow,
    chosen,
    device_row,
    device_rows,
)
from hushmq.console.state.reasons import reason_in_words
from hushmq.console.store.device_facts import DeviceFacts


async def devices_page(visit: Visit) -> Response:
    rows, values = await _table(visit)
    return visit.page(
        "devices.html",
        live="devices",
        rows=chosen(rows, filter_=values["show"], text=values["text"], sort=values["sort"]),
        policy=visit.context.site.public.policy,
        descending=DESCENDING,
        now=time.time(),
        **values,
    )


async def _table(visit: Visit) -> tuple[list[DeviceRow], dict[str, Any]]:
    """All rows, and what is asked for, with how many devices fall under each filter."""
    rows = device_rows(visit.context.site, (await visit.context.fresh_facts()).devices)
    counts = Counter(mark for row in rows for mark in row.marks) + Counter({"all": len(rows)})
    return rows, {
        "counts": counts,
        "filters": FILTERS,
        "show": visit.query("show", FILTERS, "all"),
        "sort": visit.query("sort", SORTS, "state"),
        "text": visit.request.query_params.get("name", "")[:64],
    }


async def live_device_rows(visit: Visit, names: set[str]) -> dict[str, str]:
    """The rows of these devices, rendered; empty for one that does not fall under what the page shows."""
    facts = await visit.context.fresh_facts()
    show, text = visit.query("show", FILTERS, "all"), visit.request.query_params.get("name", "")[:64]
    found = {}
    for name in names:
        record = visit.context.site.devices.get(name)
        if record is not None:
            row = device_row(visit.context.site, record, facts.devices.get(name) or DeviceFacts())
            falls = chosen([row], filter_=show, text=text, sort="name")
            found[name] = visit.fragment("device_row.html", row=row, now=time.time()) if falls else ""
    return found


async def live_device_counts(visit: Visit) -> str:
    """The filters with their counts, rendered."""
    _, values = await _table(visit)
    return visit.fragment("device_chips.html", **values)


async def device_page(visit: Visit) -> Response:
    name = str(visit.request.path_params["device"])
    values = await _device_values(visit.context, name)
    if values is None:
        return visit.page("problem.html", status=404, words=f"There is no device {name}.")
    return visit.page("device.html", live=f"devices/{name}", **values)


async def live_device_fragment(visit: Visit, name: str) -> str:
    values = await _device_values(visit.context, name)
    return "" if values is None else visit.fragment("device_body.html", **values)


async def _device_values(context: ConsoleContext, name: str) -> dict[str, Any] | None:
    facts = (await context.fresh_facts()).devices
    record = context.site.devices.get(name)
    if record is None and name not in facts:
        return None
    mine = facts.get(name) or DeviceFacts()
    record = record or DeviceRecord(name)
    todo = [reason_in_words(one.reason)[1] for _, one in record.refusals()]
    if mine.quarantine is not None:
        todo.insert(0, reason_in_words(mine.quarantine)[1])
    if mine.left_out:
        todo.append("Find out what it measures and repair it, then: `hushmq calibrator readmit`.")
    return {
        "row": device_row(context.site, record, mine),
        "facts": mine,
        "todo": list(dict.fromkeys(todo)),
        "history": context.activity.of_device(name),
        "pictures": [(one.title.partition(";")[0], one.markup()) for one in device_charts(record.samples)],
        "settings": {
            stream: one for (stream, device), one in context.site.own_settings.items() if device == name
        },
        "now": time.time(),
    }
