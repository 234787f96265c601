"""How people differ, as a pilot's recordings show it: chains that cover a new person with a stated probability.

Four things make a chain with two regimes cost more: longer regimes, slower chains within them, regimes whose log-odds
of a one are farther from the overall ones (the contrast), and an overall share of ones that is off the middle. People
are taken as normal in the logarithms of both times, in the contrast and in the overall log-odds. A new person is then
within the one-sided prediction bound t·s·√(1 + 1/n) above the mean of n recordings with the probability asked for, in
each of the first three; in the last one between two such bounds. What is listed has all of them at their bounds at
once, so it costs more than most who are beyond one of them; and the fits' own errors are part of the spread s. How
often it covers those who were left out is measured (docs/replay.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from hushmq.calibrator.models.quantiles import student_quantile
from hushmq.plan.fit_regimes import FittedRegimes
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

LEAST_RECORDINGS = 2
"""Fewer do not show how people differ."""
_TOLERANCE = 1e-6
_QUICKEST = 0.98
"""The fastest inner chain: independent bits have no time that can be compared."""


@dataclass(frozen=True, slots=True)
class Margin:
    """The bounds within which a new person is expected."""

    odds: tuple[float, float, float]
    """Overall log-odds of a one: the lower bound, the mean, the upper bound."""
    contrast: float
    slow_time: float
    """Ticks."""
    fast_time: float

    @classmethod
    def of(cls, fits: Sequence[FittedRegimes], coverage: float) -> Margin:
        """The bounds from these recordings; ValueError for fewer than two, or a coverage outside of [½, 1)."""
        if len(fits) < LEAST_RECORDINGS:
            raise ValueError("one recording does not show how people differ")
        if not 0.5 <= coverage < 1:
            raise ValueError(f"a coverage of {coverage!r} is outside of [0.5, 1)")

        def off(values: Sequence[float], probability: float) -> float:
            quantile = student_quantile(probability, len(values) - 1)
            return quantile * stdev(values) * math.sqrt(1 + 1 / len(values))

        def above(of: Callable[[FittedRegimes], float]) -> float:
            values = [of(one) for one in fits]
            return fmean(values) + off(values, coverage)

        odds = [_logit(one.coordinates.share) for one in fits]
        middle, wide = fmean(odds), off(odds, (1 + coverage) / 2)
        return cls(
            (middle - wide, middle, middle + wide),
            above(contrast),
            math.exp(above(lambda one: -math.log(one.coordinates.slow_rate))),
            math.exp(above(lambda one: -math.log(min(_QUICKEST, one.coordinates.fast_rate)))),
        )

    def chains(self) -> tuple[RegimeChain, ...]:
        """Chains at all bounds, for each of the three overall shares."""
        fast = 1 / self.fast_time
        slow = min(1 / self.slow_time, fast / 2)
        found = []
        for odds in self.odds:
            lower, share, upper = (_share(odds + step) for step in (-self.contrast, 0.0, self.contrast))
            time = (share - lower) / (upper - lower)
            up, down = time * slow, (1 - time) * slow
            inner = [(fast * one, fast * (1 - one)) for one in (lower, upper)]
            found.append(RegimeChain.of([[1 - up, up], [down, 1 - down]], inner))
        return tuple(found)


def contrast(fit: FittedRegimes) -> float:
    """How far the log-odds of a one within a regime are from the overall ones, where they are farthest."""
    overall = _logit(fit.coordinates.share)
    return max(abs(_logit(q / (q + r)) - overall) for q, r in fit.chain.chains)


def covered_when_left_out(
    fits: Sequence[FittedRegimes], coverage: float, epsilons: Sequence[float], adversary: Adversary
) -> int:
    """How many of the recordings lose no more than every ε under the noise that the others and their margin allow."""
    found = 0
    for place, one in enumerate(fits):
        others = [*fits[:place], *fits[place + 1 :]]
        theta = RegimeTheta.of([*Margin.of(others, coverage).chains(), *(other.chain for other in others)])
        found += covers(theta, one.chain, epsilons, adversary)
    return found


def covers(theta: RegimeTheta, chain: RegimeChain, epsilons: Sequence[float], adversary: Adversary) -> bool:
    """Whether the chain loses no more than every ε under the noise that Θ allows for it."""
    own = RegimeTheta.of([chain])
    return all(
        own.constant_loss(*theta.largest_tilts(epsilon, adversary), adversary) <= epsilon * (1 + _TOLERANCE)
        for epsilon in epsilons
    )


def _logit(share: float) -> float:
    return math.log(share / (1 - share))


def _share(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))
