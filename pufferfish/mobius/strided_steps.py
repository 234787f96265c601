"""Published ticks that are m apart, where nothing is assumed about the odds that an adversary expects.

Let x be what the outputs on one side of a tick say, in nats, and let m steps without an output leave at most B_α(x) of
it: tanh(B_α(x)/4) = λ·tanh(x/4), λ = (1−α)/(1+α). Endless with a tilt of τ at every published tick that is

    sinh(loss/4) = sinh(τ/4)/α,   and backwards   sinh(τ/4) = α·sinh(loss/4)

(docs/theory-regimes.md, Theorem R5; docs/theory-k.md, Theorem 13). Standard library only: a device checks its
settings with it.
"""

from __future__ import annotations

import math

LONGEST_STRIDE = 1 << 16
"""The longest stride there is."""

_SLACK = 2.0**-46
"""Exceeds the rounding errors of a loss, by 1 + the loss."""

_SHRINK = 2.0**-46
"""By this much a tilt is made smaller at first, until its loss, rounded up, is within ε."""


def check_stride(stride: int) -> None:
    """Raise ValueError unless it is a stride."""
    if not 1 <= stride <= LONGEST_STRIDE:
        raise ValueError(f"stride is {stride}; it must be between 1 and {LONGEST_STRIDE}")


def endless_loss(tau: float, alpha: float) -> float:
    """The loss of an endless stream with tilt τ at every published tick, rounded up; infinite where α is 0."""
    if tau == 0.0:
        return 0.0
    if not alpha > 0.0:
        return math.inf
    loss = 4.0 * math.asinh(_sinh(tau / 4.0) / alpha)
    return loss + _SLACK * (1.0 + loss)


def endless_tilt(epsilon: float, alpha: float) -> float:
    """The largest tilt with an endless loss of at most ε; 0 if there is none."""
    if not (epsilon > 0.0 and alpha > 0.0):
        return 0.0
    tau, shrink = 4.0 * math.asinh(_sinh(epsilon / 4.0) * alpha), _SHRINK
    while endless_loss(tau, alpha) > epsilon and tau > 0.0:
        tau, shrink = max(0.0, tau * (1.0 - shrink)), 2.0 * shrink
    return tau


def _sinh(x: float) -> float:
    return math.sinh(min(x, 700.0))
