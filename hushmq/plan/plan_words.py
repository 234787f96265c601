"""A plan for people: lines of text, and a picture of what more devices or another period would bring."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.forecast.stream_plan import StreamPlan
from hushmq.broker.forecast.what_if import more_in_words
from hushmq.broker.forecast.window_forecast import NO_DATA, window_forecasts
from hushmq.commands.durations import in_words
from hushmq.explain.figure import Curve, Figure, LabelledPoint, Panel
from hushmq.plan.planned_stream import PlannedStream

LEAST_FACTOR = 100
"""The picture goes from so many times fewer to so many times more devices."""


def plan_lines(
    stream: PlannedStream, plan: StreamPlan, period: float, chosen: bool, reasons: Sequence[str] = ()
) -> list[str]:
    """Return what the plan says, without what would reach a wanted error."""
    dwell = ", ".join(
        f"{name} {in_words(seconds)}" for name, seconds in zip(stream.states, stream.dwell, strict=True)
    )
    epsilon, stride = plan.policy.epsilon, plan.policy.stride
    lines = [
        f"{stream.name}: {dwell} on average; {stream.devices} device{'s' * (stream.devices != 1)}; "
        f"ε {epsilon.operator:.3g} for operators, {epsilon.public:.3g} for the public; {stream.adversary} adversary",
        f"a state every {in_words(period)}{' (the best for the first window)' if chosen else ''}"
        f"{f', of which one of {stride} is published (the best for all windows)' if stride > 1 else ''}",
    ]
    lines += reasons
    if plan.best is not None:
        first = (
            f"nothing can be published: {plan.why_not}" if plan.first is None else plan.first.noise.in_words()
        )
        lines.append(f"noise on the device: at first {first}; once Θ is learned {plan.best.noise.in_words()}")
    lines += ["", *_table(stream, plan), ""]
    if plan.best is not None:
        policy = Policy(version=1, cohort="plan", streams={stream.name: plan.policy})
        more = more_in_words(policy, stream.name, {stream.name: plan.best.theta}, stream.devices)
        lines += [] if more is None else [more]
    traffic = plan.traffic
    lines += [
        f"traffic of a device: {traffic.batches:,.0f} messages, {traffic.bytes / 1000:,.1f} kB a day",
        f"readers of the noisy stream: {plan.odds()['operator']}",
        f"readers of releases only:    {plan.odds()['public']}",
        "that is about the recorded state at any one instant, however long it runs",
    ]
    return lines + [f"WARNING: {words}" for words in plan.warnings()]


def _table(stream: PlannedStream, plan: StreamPlan) -> list[str]:
    first = {(one.window, one.scope): one for one in plan.first_windows}
    rows = [("window", "of", "a share, at first", "once Θ is learned (95%)")]
    for one in plan.best_windows:
        now = first.get((one.window, one.scope))
        rows.append(
            (
                f"{one.window} ({in_words(one.seconds)})",
                f"{stream.devices} device{'s' * (stream.devices != 1)}"
                if one.scope == "cohort"
                else "each device",
                "none" if now is None else f"±{now.half_width:.2g}",
                f"±{one.half_width:.2g}{'' if one.tells else '  less than no data'}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def plan_figure(stream: PlannedStream, plan: StreamPlan, tried: Sequence[tuple[float, float]]) -> Figure:
    """Return the half-widths over the number of devices and, where several were tried, over the period."""
    if plan.best is None:
        raise ValueError("a plan without a forecast has no picture")
    here, best = stream.devices, plan.best
    numbers = sorted({max(1, round(here * LEAST_FACTOR ** (step / 8))) for step in range(-8, 9)} | {here})
    by_number = {
        number: {
            (one.window, one.scope): one.half_width
            for one in window_forecasts(plan.policy, best, devices=number)
        }
        for number in numbers
    }
    keys = list(by_number[here])
    curves = [
        Curve(
            f"{window}, {'cohort' if scope == 'cohort' else 'a device'}",
            numbers,
            [by_number[n][window, scope] for n in numbers],
        )
        for window, scope in keys
    ]
    curves.append(Curve("no data", [numbers[0], numbers[-1]], [NO_DATA, NO_DATA], reference=True))
    panels = [
        Panel(
            title="Error of a share over the number of devices",
            x_label="devices",
            y_label="half of the 95% interval",
            curves=curves,
            marks=[LabelledPoint(f"±{by_number[here][keys[0]]:.2g}", here, by_number[here][keys[0]])],
            logarithmic="xy",
        )
    ]
    if len(tried) > 2 and all(one < other for (one, _), (other, _) in pairwise(tried)):
        panels.append(
            Panel(
                title=f"Error of {next(iter(stream.windows))} over the period",
                x_label="seconds from one published state to the next",
                y_label="half of the 95% interval",
                curves=[
                    Curve(
                        "once Θ is learned", [one for one, _ in tried], [one for _, one in tried], dots=True
                    ),
                    Curve("no data", [tried[0][0], tried[-1][0]], [NO_DATA, NO_DATA], reference=True),
                ],
                logarithmic="xy",
            )
        )
    return Figure(f"What can be had of {stream.name}", panels, stacked=True)
