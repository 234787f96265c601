"""The loss of a timeline under a Θ against an adversary, whichever they are; and the tilts of a setting's noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from hushmq.verify.largest_loss import Found, Pricing, largest_loss, loss_for_ever
from hushmq.verify.more_state_pricing import MoreStates, through_emission, tilt_of_emission
from hushmq.verify.outward import UP, Interval
from hushmq.verify.spread_of_odds import spread_of_more, spread_of_two
from hushmq.verify.strided_more_states import StridedMoreStates
from hushmq.verify.strided_pricing import StridedStates
from hushmq.verify.tilt_sequence import Run, Ticks, Tilts
from hushmq.verify.two_state_pricing import TwoStates, through_flips, tilts_of_flips

Tree = dict[str, Any]


class PricedAdversary(NamedTuple):
    """How one tick is priced, and what the adversary may learn beside: the spread of the odds, if undecided."""

    pricing: Pricing
    spread: Decimal
    beside_ticks: int = 0
    """How many strides around some ticks are priced with them: 1 where not every tick is published."""

    def loss_for_ever(self, tilts: Tilts) -> Interval:
        """The loss of an endless stream with the same tilts at every tick."""
        return self.beside(loss_for_ever(self.pricing, tilts))

    def largest_loss(self, runs: Sequence[Run], stated: float, ticks: Ticks | None = None) -> Found:
        """Bounds on the largest loss of disjoint runs, as close as it takes to decide whether it is at most `stated`.

        An undecided adversary learns no more than all tilts together either (docs/theory-world.md, Theorem 26).
        """
        if ticks is not None and ticks[0] <= ticks[1]:
            ticks = ticks[0] - self.beside_ticks, ticks[1] + self.beside_ticks
        if not self.spread:
            return largest_loss(self.pricing, runs, stated, ticks=ticks)
        beside_spread = max(0.0, float(Decimal(stated) - min(self.spread, Decimal(10**6))))
        inside = largest_loss(self.pricing, runs, beside_spread, ticks=ticks)
        total = Decimal(0)
        for run in runs:
            total = UP.fma(Decimal(run.last - run.first + 1), max(one.high for one in run.tilts), total)
        high = max(inside.loss.high, min(self.beside(inside.loss).high, total))
        return Found(Interval(inside.loss.low, high), inside.tick, inside.cut_short)

    def beside(self, inside: Interval) -> Interval:
        """The loss together with the spread."""
        return Interval(inside.low, UP.add(inside.high, self.spread) if inside.high else inside.high)


def adversary_of(theta: Tree, name: str, stride: int) -> PricedAdversary:
    """An adversary who believes in Θ and sees one of so many ticks; NotImplementedError where he is not known here."""
    return _adversary_of(json.dumps(theta, sort_keys=True), name, stride)


@lru_cache(maxsize=256)
def _adversary_of(text: str, name: str, stride: int) -> PricedAdversary:
    theta = json.loads(text)
    if "regimes" in theta:
        raise NotImplementedError("a Θ of chains with hidden regimes: this checker does not price those")
    two = "q" in theta
    if name not in ({"prior", "informed", "undecided"} if two or stride > 1 else {"prior", "undecided"}):
        raise NotImplementedError(
            f"the adversary {name!r} of a stream of {'two' if two else 'more than two'} states"
        )
    pricing: Pricing
    if stride == 1:
        pricing = TwoStates(theta, name) if two else MoreStates(theta)
    else:
        pricing = StridedStates(theta, stride) if two else StridedMoreStates(theta, stride)
    spread = (spread_of_two if two else spread_of_more)(theta) if name == "undecided" else Decimal(0)
    return PricedAdversary(pricing, spread, 0 if stride == 1 else 1)


def tilts_of_noise(noise: dict[str, Any]) -> Tilts:
    """The tilts of one sanitized state."""
    return tilts_of_flips(noise) if "rho0" in noise else tilt_of_emission(noise["emission"])


def through_noise(noise: dict[str, Any], tilt: Interval) -> Tilts:
    """The tilts on the true state of what tilts the sanitized one by w."""
    if "rho0" in noise:
        return through_flips(noise, tilt)
    return through_emission(tuple(map(tuple, noise["emission"])), tilt)


def contains(theta: Tree, other: Tree) -> bool:
    """Whether every chain of the other Θ is in this one, as far as their bounds on the chain itself say."""
    if "regimes" in theta or "regimes" in other:
        return all(chain in theta.get("regimes", []) for chain in other.get("regimes", [None]))
    if "q" in theta:
        return all(
            theta[name]["low"] <= other[name]["low"] and other[name]["high"] <= theta[name]["high"]
            for name in ("q", "r")
        )
    return all(
        a <= b
        for less, more in ((theta["low"], other["low"]), (other["high"], theta["high"]))
        for row, other_row in zip(less, more, strict=True)
        for a, b in zip(row, other_row, strict=True)
    )
