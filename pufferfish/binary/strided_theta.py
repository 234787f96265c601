"""The price of a two-state stream that publishes one of every m ticks, for every Θ, in closed form.

Let x be what the outputs on one side of a tick say, in nats. One step of any kernel of Θ leaves at most B_α(x) of it,
whatever odds the adversary expects and whatever he knows: tanh(B_α(x)/4) = λ·tanh(x/4), λ = (1−α)/(1+α). So m steps
without an output leave λ^m of tanh(x/4), and published ticks that are m apart are the symmetric chain of correlation
λ^m with all tilts halved, at twice its price. Endless with tilt τ that is

    sinh(loss/4) = sinh(τ/4) / α_m,   α_m = tanh(m·artanh α).

It holds for kernels that change at every step, for states known at any tick, and for secrets at every tick, published
or not (docs/theory-regimes.md, Theorem R5). Standard library only: a device checks its settings with it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from functools import lru_cache

from hushmq.pufferfish.adversary import Adversary, check_adversary, check_tilts
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_spread import odds_spread
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline
from hushmq.pufferfish.binary.changing_chain import splits_by_state
from hushmq.pufferfish.mobius.changing_side import alpha_of
from hushmq.pufferfish.mobius.strided_steps import check_stride, endless_loss, endless_tilt
from hushmq.pufferfish.protocols import Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.undecided import UndecidedTimeline, left_inside, spread_error, with_spread

_DOWN = 1.0 - 2.0**-44
"""Exceeds the relative rounding error of α_m, to the side of more loss."""


@lru_cache(maxsize=4096)
def strided_alpha(theta: BinaryTheta, stride: int) -> float:
    """α_m, rounded down: how much `stride` steps of any kernels of Θ forget at least."""
    check_stride(stride)
    alpha = min(alpha_of(q, r) for q, r in theta.worst_corners())
    return math.tanh(stride * math.atanh(alpha)) * _DOWN


def constant_loss(theta: BinaryTheta, tau0: float, tau1: float, adversary: Adversary, stride: int) -> float:
    """The loss of an endless stream with these tilts at one of every `stride` ticks, for every sequence of kernels."""
    check_tilts(tau0, tau1)
    check_adversary(adversary)
    loss = endless_loss(max(tau0, tau1), strided_alpha(theta, stride))
    return with_spread(loss, odds_spread(theta)) if adversary == "undecided" else loss


def largest_tilts(
    theta: BinaryTheta, epsilon: float, adversary: Adversary, stride: int
) -> tuple[float, float]:
    """The largest tilt whose loss is within ε, twice; 0 if there is none."""
    check_adversary(adversary)
    left = left_inside(epsilon, odds_spread(theta)) if adversary == "undecided" else epsilon
    tau = endless_tilt(left, strided_alpha(theta, stride))
    return tau, tau


def optimal_noise(
    theta: BinaryTheta, epsilon: float, adversary: Adversary, stride: int, share: float = 1.0
) -> BinaryNoise:
    """The noise with the most signal whose tilts are within a share of the largest; ValueError if there is none."""
    if adversary == "undecided" and (reason := spread_error(theta, epsilon)) is not None:
        raise ValueError(reason)
    tau0, tau1 = largest_tilts(theta, epsilon, adversary, stride)
    if not tau0 > 0.0:
        raise ValueError(f"epsilon is {epsilon!r}; no informative noise has so small a loss for this Θ")
    return BinaryNoise.of_tilts(share * tau0, share * tau1)


def timeline(
    theta: BinaryTheta,
    adversary: Adversary,
    entries: Iterable[Entry],
    *,
    stride: int,
    ticks: Ticks | None = None,
) -> Timeline:
    """A history in strides: entry n is about the one tick that is published of n·stride … (n+1)·stride − 1."""
    check_adversary(adversary)
    listed = list(entries)
    inside = StridedTimeline(theta, listed, stride=stride, ticks=ticks)
    return UndecidedTimeline(inside, odds_spread(theta), listed) if adversary == "undecided" else inside


class StridedTimeline:
    """The symmetric chain of `strided_alpha`, to the prior adversary, with halved tilts and twice its price.

    A tick that is not published loses no more than one of the published ticks beside it, which may be in the stride
    before the first of `ticks`, or in the one after the last.
    """

    def __init__(
        self, theta: BinaryTheta, entries: Iterable[Entry], *, stride: int, ticks: Ticks | None = None
    ) -> None:
        self._both = not splits_by_state(theta)
        forgets = strided_alpha(theta, stride)
        step = forgets / (1.0 + forgets) * _DOWN
        near = None if ticks is None else (ticks[0] - 1, ticks[1] + 1)
        self._inside = BinaryTimeline(
            BinaryTheta.point(step, step), "prior", [self._halved(one) for one in entries], ticks=near
        )

    def add(self, entry: Entry) -> None:
        """Adds an entry to the history."""
        # A shallow copy of this timeline shares `_inside` with it.
        inside = copy.copy(self._inside)
        inside.add(self._halved(entry))
        self._inside = inside

    def price(self) -> Price:
        """The price of the history."""
        return _doubled(self._inside.price())

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline does not change."""
        return _doubled(self._inside.price_with(self._halved(entry)))

    def _halved(self, entry: Entry) -> Entry:
        tau0, tau1 = entry.tau0, entry.tau1
        if self._both:
            tau0 = tau1 = max(tau0, tau1)
        return Entry(entry.first, entry.last, tau0 / 2.0, tau1 / 2.0)


def _doubled(price: Price) -> Price:
    return Price(2.0 * price.epsilon, price.tick)
