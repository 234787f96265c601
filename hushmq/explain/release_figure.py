"""Released shares over time, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hushmq.broker.contract.messages import Release
from hushmq.broker.contract.problem import Problem
from hushmq.explain.figure import Curve, Figure, Panel

UNITS = ((2 * 86_400.0, 86_400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (0.0, 60.0, "minutes"))
"""From so many seconds on, a unit of so many seconds."""


def release_figure(found: Sequence[Release], *, state: str | None = None, unsmoothed: bool = False) -> Figure:
    """A panel for each stream, window and scope: the share of a state over time, by default of the last one."""
    groups: dict[tuple[str, str, str], list[Release]] = {}
    for one in found:
        if one.end is not None:
            groups.setdefault((one.stream, one.window, one.scope), []).append(one)
    if not groups:
        raise Problem("there are no releases yet: there is nothing to plot")
    panels = [_panel(names, each, state, unsmoothed=unsmoothed) for names, each in groups.items()]
    words = "each share as it was released" if unsmoothed else "smoothed shares, where a release has them"
    return Figure("What was released", panels, [f"95% intervals; {words}; times are UTC"], stacked=True)


def _panel(
    names: tuple[str, str, str], found: Sequence[Release], state: str | None, *, unsmoothed: bool
) -> Panel:
    states = found[-1].states
    if state is not None and state not in states:
        raise Problem(f"--state: {names[0]} has no state {state!r}; it has {', '.join(states)}")
    index = len(states) - 1 if state is None else states.index(state)
    ends = [datetime.fromisoformat(one.end or "").timestamp() for one in found]
    length, seconds, unit = next(row for row in UNITS if ends[-1] - ends[0] >= row[0])
    del length
    shares, low, high = [], [], []
    for one in found:
        smoothed = None if unsmoothed else one.smoothed
        intervals = one.intervals if smoothed is None else one.smoothed_intervals
        shares.append((one.frequencies if smoothed is None else smoothed)[index])
        below, above = (intervals or one.intervals)[index]
        low.append(max(0.0, below))
        high.append(min(1.0, above))
    return Panel(
        f"{'/'.join(names)}: {len(found)} releases since {found[0].start}",
        f"{unit} since then",
        f"share of {states[index]}",
        [
            Curve(
                states[index],
                [(end - ends[0]) / seconds for end in ends],
                [min(1.0, max(0.0, share)) for share in shares],
                dots=True,
                low=low,
                high=high,
            )
        ],
    )
