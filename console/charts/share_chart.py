"""The picture of one state's share over time: raw releases with their intervals, and the smoothed share."""

from __future__ import annotations

from collections.abc import Sequence

from hushmq.console.charts.chart import Band, Bars, Chart, Dots, Layer, Line, bounds
from hushmq.console.pages_text import moment, percent
from hushmq.console.store.release_groups import ReleaseGroup
from hushmq.console.store.release_series import ReleasePoint


def share_chart(groups: Sequence[ReleaseGroup], state: int, tick_s: float) -> Chart:
    """The chart of a state's share; of a group of releases a stroke from the least to the largest is drawn."""
    last, count = [one.last for one in groups], sum(one.count for one in groups)
    smoothed = [None if one.smoothed is None else one.smoothed[state] for one in last]
    around = [
        (None, None) if one.smoothed_intervals is None else one.smoothed_intervals[state] for one in last
    ]
    least, largest = [one.low[state] for one in groups], [one.high[state] for one in groups]
    grouped = len(groups) < count
    layers: list[Layer] = []
    if grouped:
        layers.append(Bars(least, largest, "raw"))
    elif count <= 200:
        whiskers = [one.intervals[state] for one in last]
        layers.append(Bars([one[0] for one in whiskers], [one[1] for one in whiskers], "raw"))
    layers.append(Band([one[0] for one in around], [one[1] for one in around], "smooth"))
    if not grouped:
        layers.append(Dots(least, "raw"))
    layers.append(Line(smoothed, "smooth"))
    values = [*least, *largest, *(value for one in around for value in one if value is not None)]
    if count <= 60:
        values += [value for one in last for value in one.intervals[state]]
    low, high = bounds([min(1.0, max(0.0, one)) for one in values])
    return Chart(
        title=_title(last[-1], count, state),
        times=[(one.last + 1) * tick_s for one in last],
        layers=layers,
        low=max(0.0, low),
        high=min(1.0, high),
        write=lambda one: percent(one, 0 if high - low > 0.1 else 1),
        points=[_words(group, state, tick_s) for group in groups],
        keys=[one.entry for one in last],
    )


def _title(newest: ReleasePoint, count: int, state: int) -> str:
    low, high = (newest.smoothed_intervals or newest.intervals)[state]
    share = (newest.smoothed or newest.frequencies)[state]
    return (
        f"Share of {newest.states[state]} over {count} releases; the newest is {percent(share)}, "
        f"between {percent(low)} and {percent(high)}"
    )


def _words(group: ReleaseGroup, state: int, tick_s: float) -> list[str]:
    one = group.last
    low, high = one.intervals[state]
    said = [
        f"{moment(one.first * tick_s)} to {moment((one.last + 1) * tick_s)[11:]}",
        f"raw {percent(one.frequencies[state])}, {percent(low)} to {percent(high)}",
    ]
    if one.smoothed is not None and one.smoothed_intervals is not None:
        low, high = one.smoothed_intervals[state]
        said.append(f"smoothed {percent(one.smoothed[state])}, {percent(low)} to {percent(high)}")
    said.append(f"noise of scale {one.scale:.4g} · {one.devices} devices")
    said.append(f"loss {one.loss:.4f} of ε = {one.budget:g} · entry {one.entry}")
    if group.count == 1:
        return said
    between = f"{percent(group.low[state])} to {percent(group.high[state])}"
    return [f"{group.count} releases, raw {between}; the last:", *said]
