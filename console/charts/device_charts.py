"""The pictures of one device since the console started: its queue, what it dropped, and its signal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hushmq.console.charts.chart import Chart, Line, bounds
from hushmq.console.pages_text import moment
from hushmq.console.state.device_record import Sample


def device_charts(samples: Sequence[Sample]) -> list[Chart]:
    """A picture of the ticks that wait, one of the ticks dropped if there are any, one of the signal."""
    if len(samples) < 2:
        return []
    dropped = max(one.dropped for one in samples) > 0
    return [
        _chart("Ticks that wait in its queue", samples, [one.buffered for one in samples], "{:,.0f}".format),
        *(
            [_chart("Ticks dropped, in all", samples, [one.dropped for one in samples], "{:,.0f}".format)]
            if dropped
            else ()
        ),
        *(
            [
                _chart(
                    "Signal through its noise", samples, [one.signal for one in samples], "{:.3g}".format, 1.0
                )
            ]
            if any(one.signal is not None for one in samples)
            else ()
        ),
    ]


def _chart(
    name: str,
    samples: Sequence[Sample],
    values: Sequence[float | None],
    write: Callable[[float], str],
    most: float | None = None,
) -> Chart:
    known = [one for one in values if one is not None]
    return Chart(
        title=f"{name}; now {write(known[-1])}",
        times=[one.at for one in samples],
        layers=[Line(values, "smooth", step=True)],
        low=0.0,
        high=most or bounds([0.0, 1.0, *known])[1],
        write=write,
        points=[
            [moment(one.at), f"{name.lower()}: {'unknown' if value is None else write(value)}"]
            for one, value in zip(samples, values, strict=True)
        ],
        names=(),
    )
