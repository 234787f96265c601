"""The price and the error of every query of a policy, before it is pushed.

All but transitions follow from what is released anyway. A table of transitions takes its share of the window's tilt:
the window costs the same, and its histogram has more noise (docs/queries.md).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.query_message import (
    AnyQuery,
    MeanQuery,
    QuantileQuery,
    SlidingQuery,
    TransitionsQuery,
    of_window,
)
from hushmq.broker.contract.release_answers import Row, below, centred
from hushmq.broker.forecast.policy_forecast import Forecast, Share
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.inference.half_width import half_width
from hushmq.pufferfish.protocols import Noise
from hushmq.pufferfish.thinning.theta_strides import largest_sampling_variance

CELLS_MOVED = 4
"""The most that one sanitized state moves in a table of transitions (calibrator/models/pair_count.py)."""


@dataclass(frozen=True, slots=True)
class QueryForecast:
    """One query in the releases of one scope: its tilt, and half the width of its 95% interval at the worst truth."""

    query: str
    kind: str
    window: str
    scope: str
    tilt: float
    """On a sanitized state, in nats, of what the window spends; 0 where it follows from released numbers."""
    half_width: float | None
    """In the unit of the answer; of a quantile, of the share up to a state. None where the answer has none."""

    def as_tree(self) -> dict[str, Any]:
        """Return the forecast as JSON-compatible values."""
        return asdict(self)


def query_forecasts(policy: StreamPolicy, found: Forecast, *, devices: int) -> list[QueryForecast]:
    """Return what every query of a stream costs and how far off its answers are, on `devices` devices."""
    return [
        _forecast(name, query, policy, found, share, devices=devices)
        for share in found.shares
        for name, query in of_window(policy.queries, share.window).items()
    ]


def query_words(policy: StreamPolicy, found: Forecast, *, devices: int) -> list[str]:
    """Return a line for every query."""
    lines = []
    for one in query_forecasts(policy, found, devices=devices):
        off = "" if one.half_width is None else f", ±{one.half_width:.2g} (95%)"
        cost = (
            f"tilt {one.tilt:.5f}, taken from the window's"
            if one.tilt
            else "costs nothing beyond the release"
        )
        lines.append(
            f"    query {one.query} ({one.kind}) in window {one.window} for the {one.scope}: {cost}{off}"
        )
    return lines


def _forecast(
    name: str, query: AnyQuery, policy: StreamPolicy, found: Forecast, share: Share, *, devices: int
) -> QueryForecast:
    states = share.ticks / policy.stride * (max(1, devices) if share.scope == "cohort" else 1)
    k, tilt, off = len(policy.states), 0.0, None
    unseen = 0.0
    if policy.stride > 1 and isinstance(found.theta, BinaryTheta):
        # One tick of each stride stands for all of them.
        unseen = largest_sampling_variance(found.theta, policy.stride) / (states * policy.stride)
    match query:
        case MeanQuery():
            _, width, row = centred(query.values)
            off = width * _sum_width(found.noise, [row], states, share.scale, unseen)
        case QuantileQuery():
            rows = [centred(below(state, k))[2] for state in range(k - 1)]
            off = _sum_width(found.noise, rows, states, share.scale, unseen)
        case SlidingQuery():
            rows = [centred([float(one == state) for one in range(k)])[2] for state in range(k)]
            off = _sum_width(found.noise, rows, states, share.scale, unseen) / math.sqrt(query.windows)
        case TransitionsQuery():
            tilt = share.tilt * query.share
            pairs = states * (
                1 - policy.stride / share.ticks
            )  # the last state of a window is followed by none
            off = _pairs_width(found.noise, pairs, CELLS_MOVED / tilt)
    return QueryForecast(name, query.kind, query.window, share.scope, tilt, off)


def _sum_width(noise: Noise, rows: list[Row], states: float, scale: float, unseen: float) -> float:
    """Half the width of the widest interval of sums Σ w·f; an output z adds a_z to one, with a = B⁻¹·w."""
    columns, widest = _inverse_columns(noise), 0.0
    for row in rows:
        weights = [sum(w * one[z] for w, one in zip(row, columns, strict=True)) for z in range(len(columns))]
        sampling = 0.0
        for law in noise.laws:
            mean = sum(p * a for p, a in zip(law, weights, strict=True))
            sampling = max(sampling, sum(p * (a - mean) ** 2 for p, a in zip(law, weights, strict=True)))
        squares = sum(a * a for a in weights)
        if len(row) == 2:  # one count says all: what it adds is the difference of the two weights
            squares = (weights[1] - weights[0]) ** 2
        widest = max(widest, half_width(sampling / states + unseen, 2 * scale**2 * squares / states**2))
    return widest


def _pairs_width(noise: Noise, pairs: float, scale: float) -> float:
    """Half the width of the interval of the worst cell's share (calibrator/models/pair_count.py)."""
    most, squares = 0.0, 0.0
    for place, weights in enumerate(_inverse_columns(noise)):
        squares = max(squares, sum(a * a for a in weights))
        for state, law in enumerate(noise.laws):
            square = sum(p * a * a for p, a in zip(law, weights, strict=True))
            most = max(most, square - float(state == place))
    return half_width((most * most + 4 * most) / pairs, 2 * (scale * squares / pairs) ** 2)


def _inverse_columns(noise: Noise) -> list[list[float]]:
    """The columns of B⁻¹: what an output counts for each state."""
    laws = noise.laws
    if len(laws) > 2:
        return [list(row) for row in noise.frequency_weights()]
    (a, b), (c, d) = laws
    determinant = a * d - b * c
    if not math.isfinite(1 / determinant):
        raise ValueError("the noise leaves no signal")
    return [[d / determinant, -c / determinant], [-b / determinant, a / determinant]]
