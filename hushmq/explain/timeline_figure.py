"""The loss at every tick of a timeline, and its tilts."""

from __future__ import annotations

from hushmq.broker.contract.problem import Problem
from hushmq.commands.timeline_file import History
from hushmq.explain.figure import Curve, Figure, LabelledPoint, Panel
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline
from hushmq.pufferfish.timeline.entry import Entry

SHOWN = 300
"""The approximate number of ticks shown of a longer timeline."""


def timeline_figure(history: History, adversary: Adversary, budget: float | None) -> Figure:
    """Two panels over the same ticks: the loss, and the tilts towards 0 and 1."""
    theta = history.chain
    if not isinstance(theta, BinaryTheta):
        raise Problem("regimes: this figure needs q and r; hushmq ledger price takes regimes")
    # A timeline has one chain, for which there is nothing undecided.
    known: Adversary = "prior" if adversary == "undecided" else adversary
    timeline = BinaryTimeline(theta, known, history.entries, span=(1, history.ticks))
    price = timeline.price()
    ticks = _shown(history.ticks, price.tick)
    curves = [Curve(f"loss, {adversary} adversary", ticks, [loss_at(timeline, tick) for tick in ticks])]
    marks = []
    if budget is not None:
        curves.append(Curve(f"budget {budget:g}", [1, history.ticks], [budget, budget], reference=True))
    if price.tick is not None:
        marks.append(LabelledPoint(f"tick {price.tick}: {price.epsilon:.4g}", price.tick, price.epsilon))
    return Figure(
        f"What a timeline of {history.ticks} ticks gives away: q = {theta.q_low:g}, r = {theta.r_low:g}",
        [
            Panel("Loss at each tick", "tick", "loss, nats", curves, marks),
            Panel("What was published", "tick", "tilt, nats", _tilts(history)),
        ],
        stacked=True,
    )


def loss_at(timeline: BinaryTimeline, tick: int) -> float:
    """The loss at one tick: its tilt plus the log-ratios of both sides, which do not depend on that tilt.

    An additional tilt at this tick adds itself to the loss there. It is doubled until this tick is the worst, and then
    subtracted; this ends, because the influence of a tick on the others is bounded.
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
