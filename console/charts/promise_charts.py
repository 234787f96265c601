"""The pictures of the promise: losses beside their budgets, and the misfit by lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hushmq.console.charts.chart import Band, Chart, Dots, Layer, Line, Numbers
from hushmq.console.pages_text import moment
from hushmq.console.store.release_series import ReleasePoint


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


def instant_chart(
    losses: Sequence[tuple[int, int, float, float]], tick_s: float, budgets: Mapping[str, float]
) -> Chart | None:
    """What each instant has lost to each audience, stretch by stretch of ticks; None before there is any."""
    if not losses:
        return None
    ends = [*losses, (losses[-1][1] + 1, *losses[-1][1:])]
    highest = max(max(one[2:]) for one in losses)
    return Chart(
        title=f"Loss at each instant; the most is {max(one[2] for one in losses):.3f} to the public, "
        f"{max(one[3] for one in losses):.3f} to operators",
        times=[first * tick_s for first, *_ in ends],
        layers=[
            Line([one[2] for one in ends], "smooth", step=True),
            Line([one[3] for one in ends], "one", step=True),
        ],
        low=0.0,
        high=1.1 * max(*budgets.values(), min(highest, 2 * max(budgets.values()))),
        write=lambda one: f"{one:g}",
        points=[
            [
                f"{moment(first * tick_s)} to {moment((last + 1) * tick_s)[11:]}",
                f"public at most {public:.4f}",
                f"operators at most {operator:.4f}",
            ]
            for first, last, public, operator in ends
        ],
        marks=[(budget, f"ε of {name}: {budget:g}") for name, budget in budgets.items()],
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
