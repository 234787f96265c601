"""The table of devices follows them: rows come and go as they fall under what is shown, and the counts with them."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from hushmq.broker.contract.messages import Status
from hushmq.console.charts.device_charts import device_charts
from hushmq.console.pages.devices_page import live_device_counts, live_device_rows
from hushmq.console.pages.visit import Visit
from hushmq.console.state.device_record import MOST_SAMPLES, DeviceRecord
from tests.console.conftest import Console, Opened
from tests.console.site_messages import publish_stored, report, status


def visit(console: Console, query: str) -> Visit:
    context = console.context
    _, session = context.sessions.begin(context.users.users()["ann"])
    scope = {
        "type": "http",
        "headers": [],
        "query_string": query.encode(),
        "path": "/devices",
        "method": "GET",
    }
    return Visit(Request(scope), session, context)


def test_a_row_is_sent_only_where_it_falls_under_the_filter(opened: Opened) -> None:
    """A device that comes back leaves the list of those off line, and joins that of those on line."""
    console = opened()
    publish_stored(console.context.site, console.context.database)
    report(console.context.site, "porch", status())
    for query, shown in (
        ("show=online", True),
        ("show=offline", False),
        ("name=por", True),
        ("name=x", False),
    ):
        rows = asyncio.run(live_device_rows(visit(console, query), {"porch", "unknown"}))
        assert bool(rows["porch"]) == shown, query
        assert "unknown" not in rows
    report(console.context.site, "porch", Status(online=False))
    rows = asyncio.run(live_device_rows(visit(console, "show=offline"), {"porch"}))
    assert "off line" in rows["porch"]
    chips = asyncio.run(live_device_counts(visit(console, "show=offline")))
    assert 'Off line <span class="count">1</span>' in chips


def test_a_device_is_drawn_since_the_console_started() -> None:
    """Its queue, its signal, and drops only where there are any; however long, within bounds."""
    record = DeviceRecord("porch")
    assert device_charts(record.samples) == []
    for n in range(10_000):
        record.update(status(buffered=n % 50, dropped=n // 5000), at=float(n))
        record.sample(float(n), 0.4)
        assert len(record.samples) <= MOST_SAMPLES
    names = [one.title.partition(";")[0] for one in device_charts(record.samples)]
    assert names == ["Ticks that wait in its queue", "Ticks dropped, in all", "Signal through its noise"]
    assert record.samples[0].at == 0.0
    assert record.samples[-1].at > 9_000
    for chart in device_charts(record.samples):
        assert "NaN" not in str(chart.markup())
