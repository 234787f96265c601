"""Bounds of a Θ of any form for people: the chance to leave each state at the next tick, and all transitions."""

from __future__ import annotations

from collections.abc import Sequence

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

Bounds = tuple[float, float]
Rows = Sequence[Sequence[float]]
MOST_STATES = 16
"""More states than this make no table that anybody would read."""


def leaving_chances(theta: Theta) -> list[Bounds]:
    """By state, the least and the largest chance that another one follows; of regimes, whatever came before."""
    match theta:
        case BinaryTheta():
            return [(theta.q_low, theta.q_high), (theta.r_low, theta.r_high)]
        case RegimeTheta():
            return _leaving(*theta.transition_bounds)
        case CategoricalTheta():
            return _leaving(theta.forward.low, theta.forward.high)
    return []


def _leaving(low: Rows, high: Rows) -> list[Bounds]:
    return [(1.0 - high[n][n], 1.0 - low[n][n]) for n in range(len(low))]


def transition_table(theta: Theta) -> list[list[Bounds]]:
    """The bounds of every transition of a Θ of more than two states, row by row; empty for two, which are drawn."""
    if not isinstance(theta, CategoricalTheta) or theta.states > MOST_STATES:
        return []
    low, high = theta.forward.low, theta.forward.high
    return [list(zip(*rows, strict=True)) for rows in zip(low, high, strict=True)]
