"""The pictures of the promise: losses over time beside their budgets, what was learned of Θ, and the misfit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.theta_message import BinaryThetaMessage
from hushmq.console.charts.chart import Band, Chart, Dots, Layer, Line, Numbers
from hushmq.console.pages_text import moment
from hushmq.console.store.release_series import ReleasePoint

Issued = tuple[float, NoiseSetting]
"""When a setting was issued, in seconds since the epoch, and the setting."""


def loss_chart(
    points: Sequence[ReleasePoint],
    count: int,
    tick_s: float,
    budgets: Mapping[str, float],
    operator: Sequence[tuple[float, float]] = (),
) -> Chart:
    """The worst loss at one instant: to the public after releases, of `count` in all; to operators by setting."""
    times = [(one.last + 1) * tick_s for one in points]
    layers = [_held([one.loss for one in points], "smooth")]
    if operator:
        layers.append(_held([_at(operator, time) for time in times], "one"))
    said = [
        [
            moment(time),
            f"public {one.loss:.4f} of {one.budget:g}",
            *([f"operators {loss:.4f}"] if (loss := _at(operator, time)) is not None else []),
            f"entry {one.entry}",
        ]
        for time, one in zip(times, points, strict=True)
    ]
    return Chart(
        title=f"Worst loss at one instant over {count} releases; now {points[-1].loss:.3f} of {points[-1].budget:g}",
        times=times,
        layers=layers,
        low=0.0,
        high=1.1 * max(budgets.values()),
        write=lambda one: f"{one:g}",
        points=said,
        marks=[(budget, f"ε of {name}: {budget:g}") for name, budget in budgets.items()],
    )


def _held(values: Numbers, style: str) -> Layer:
    """Values that hold until the next; a single one is a dot, since a line needs two ends."""
    return Line(values, style, step=True) if len(values) > 1 else Dots(values, style)


def _at(values: Sequence[tuple[float, float]], time: float) -> float | None:
    """The value that holds at a time; None before the first."""
    return next((value for since, value in reversed(values) if since <= time), None)


def theta_chart(settings: Sequence[Issued], states: Sequence[str], until: float) -> Chart | None:
    """The bounds of both chances to move on, setting by setting; None for more than two states."""
    found = [(time, one, one.theta) for time, one in settings if isinstance(one.theta, BinaryThetaMessage)]
    if not found:
        return None
    ends = [*found, (max(until, found[-1][0] + 1), *found[-1][1:])]
    q = [(one.q.low, one.q.high) for _, _, one in ends]
    r = [(one.r.low, one.r.high) for _, _, one in ends]
    return Chart(
        title=f"Θ over {len(found)} settings: chances from {states[0]} to {states[1]}, and back",
        times=[time for time, _, _ in ends],
        layers=[
            *(
                Band([one[0] for one in side], [one[1] for one in side], style)
                for side, style in ((q, "smooth"), (r, "one"))
            ),
            *(
                Line([one[n] for one in side], style)
                for side, style in ((q, "smooth"), (r, "one"))
                for n in (0, 1)
            ),
        ],
        low=0.0,
        high=min(1.0, 1.15 * max(one[1] for one in (*q, *r))),
        write=lambda one: f"{one:.2g}",
        points=[
            [
                f"setting {one.version}, policy {one.policy}",
                f"{states[0]} → {states[1]}: {theta.q.low:.3f} to {theta.q.high:.3f}",
                f"{states[1]} → {states[0]}: {theta.r.low:.3f} to {theta.r.high:.3f}",
                one.noise.noise.in_words(),
            ]
            for _, one, theta in ends
        ],
    )


def misfit_chart(bands: Sequence[Mapping[str, Any]]) -> Chart | None:
    """Correlation by lag: what was seen, with two standard errors, and what the fitted chains have."""
    if not bands:
        return None
    seen = [float(one["seen"]) for one in bands]
    error = [2 * float(one["error"]) for one in bands]
    fitted = [float(one["fitted"]) for one in bands]
    values = [
        *fitted,
        *(a + b for a, b in zip(seen, error, strict=True)),
        *(a - b for a, b in zip(seen, error, strict=True)),
    ]
    return Chart(
        title="Correlation at each band of lags: seen, and of the fitted chains",
        times=[float(n) for n in range(len(bands))],
        layers=[
            Band(
                [a - b for a, b in zip(seen, error, strict=True)],
                [a + b for a, b in zip(seen, error, strict=True)],
                "smooth",
            ),
            Line(fitted, "one"),
            Dots(seen, "seen"),
        ],
        low=min(0.0, *(max(-1.0, one) for one in values)),
        high=max(0.05, *(min(1.0, one) for one in values)),
        write=lambda one: f"{one:.2g}",
        points=[
            [
                f"lags {one['first']} to {one['last']}",
                f"seen {one['seen']:.4f} ± {2 * one['error']:.4f}",
                f"fitted {one['fitted']:.4f}",
            ]
            for one in bands
        ],
        names=[f"{one['first']}" for one in bands],
    )
