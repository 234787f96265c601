"""Loss at every tick of a timeline, above the tilts that cause it."""

from __future__ import annotations

from hushmq.commands.timeline_file import History
from hushmq.explain.figure import Curve, Figure, Mark, Panel
from hushmq.pufferfish.binary.binary_timeline import Entry, Timeline
from hushmq.pufferfish.binary.stream_loss import Adversary

SHOWN = 300
"""A longer timeline is shown at about so many of its ticks."""


def timeline_figure(history: History, adversary: Adversary, budget: float | None) -> Figure:
    """Two panels over the same ticks: the loss, and the tilts towards 0 and 1."""
    timeline = Timeline(history.theta, adversary, history.entries, span=(1, history.ticks))
    price = timeline.price()
    ticks = _shown(history.ticks, price.tick)
    curves = [Curve(f"loss, {adversary} adversary", ticks, [loss_at(timeline, tick) for tick in ticks])]
    marks = []
    if budget is not None:
        curves.append(Curve(f"budget {budget:g}", [1, history.ticks], [budget, budget], reference=True))
    if price.tick is not None:
        marks.append(Mark(f"tick {price.tick}: {price.epsilon:.4g}", price.tick, price.epsilon))
    theta = history.theta
    return Figure(
        f"What a timeline of {history.ticks} ticks gives away: q = {theta.q_low:g}, r = {theta.r_low:g}",
        [
            Panel("Loss at each tick", "tick", "loss, nats", curves, marks),
            Panel("What was published", "tick", "tilt, nats", _tilts(history)),
        ],
        stacked=True,
    )


def loss_at(timeline: Timeline, tick: int) -> float:
    """The loss at one tick: its own tilt and what both sides say of it, which does not depend on that tilt.

    So a probe that makes this tick the worst adds itself to its loss, and can be taken off again. One does: what a
    tick can tell about another has a limit, whatever its tilt.
    """
    probe = 4.0
    while (price := timeline.price_with(Entry(tick, tick, probe, probe))).tick != tick:
        probe *= 2.0
    return max(0.0, price.epsilon - probe)


def _shown(ticks: int, worst: int | None) -> list[int]:
    """Ticks from 1 to n, evenly, and the worst one."""
    steps = min(ticks - 1, SHOWN)
    evenly = {1 + (ticks - 1) * i // steps for i in range(steps + 1)} if steps else {1}
    return sorted(evenly if worst is None else evenly | {worst})


def _tilts(history: History) -> list[Curve]:
    """The summed tilts as steps, towards each state, or once if they are alike."""
    changes: dict[int, tuple[float, float]] = {1: (0.0, 0.0), history.ticks + 1: (0.0, 0.0)}
    for entry in history.entries:
        for tick, sign in ((entry.first, 1), (entry.last + 1, -1)):
            tau0, tau1 = changes.get(tick, (0.0, 0.0))
            changes[tick] = (tau0 + sign * entry.tau0, tau1 + sign * entry.tau1)
    curves = []
    for state, label in enumerate(("tilt towards 0", "tilt towards 1")):
        x, y, now = [], [], 0.0
        for tick in sorted(changes):
            # Between two ticks; what is left of a sum that should be 0 is rounding.
            x += [tick - 0.5, tick - 0.5]
            y.append(now)
            now = max(0.0, round(now + changes[tick][state], 12))
            y.append(now)
        curves.append(Curve(label, x[1:-1], y[1:-1]))
    return [Curve("tilt", curves[0].x, curves[0].y)] if curves[0].y == curves[1].y else curves
