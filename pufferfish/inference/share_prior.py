"""What Θ says of the share of one state in a window before anything is released: its mean, variance and correlation.

A state is entered with a probability q and left with a probability r at every tick; for a chain of more than two states
these are the intervals that its transitions allow. The balance π·r = (1−π)·q gives the range of the mean share. With
λ = 1−q−r, a window of L ticks of a two-state chain has a share of variance

    π(1−π)/L · ( (1+λ)/(1−λ) − 2λ(1−λ^L)/(L(1−λ)²) )

and a covariance π(1−π)·λ·((1−λ^L)/(L(1−λ)))² with the share in the next window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

LEAST = 1e-9
"""Stands for a transition probability of 0, which leaves no stationary share to speak of."""

CONSTANT = 1e-6
"""A chain that leaves its state so rarely in a window is constant in it; the closed form would cancel."""


@dataclass(frozen=True, slots=True)
class StateRates:
    """Intervals of the probabilities to enter a state and to leave it, at one tick."""

    enter_low: float
    enter_high: float
    leave_low: float
    leave_high: float


@dataclass(frozen=True, slots=True)
class SharePrior:
    """What Θ says of the long-run share of a state, and of the shares of one device's windows around it.

    Mean and standard deviation of the former; of a window the range of the standard deviation, and that of the
    correlation with the next one.
    """

    centre: float
    spread: float
    deviation: tuple[float, float]
    correlation: tuple[float, float]


def binary_rates(q: tuple[float, float], r: tuple[float, float]) -> tuple[StateRates, StateRates]:
    """The rates of both states of a chain with P(0→1) and P(1→0) within these intervals."""
    return StateRates(*r, *q), StateRates(*q, *r)


def categorical_rates(
    low: Sequence[Sequence[float]], high: Sequence[Sequence[float]]
) -> tuple[StateRates, ...]:
    """The rates of every state of the chains whose transition matrix lies between these two."""
    states = range(len(low))
    return tuple(
        StateRates(
            min(low[x][state] for x in states if x != state),
            max(high[x][state] for x in states if x != state),
            1 - high[state][state],
            1 - low[state][state],
        )
        for state in states
    )


@lru_cache(maxsize=4096)
def share_prior(rates: StateRates, *, ticks: int) -> SharePrior:
    """For windows of so many ticks; the long-run share is as likely anywhere in the range that Θ allows."""
    enter = [max(LEAST, rates.enter_low), max(LEAST, rates.enter_high)]
    leave = [max(LEAST, rates.leave_low), max(LEAST, rates.leave_high)]
    low, high = enter[0] / (enter[0] + leave[1]), enter[1] / (enter[1] + leave[0])
    return _over((low + high) / 2, (high - low) / math.sqrt(12), _moments(enter, leave, ticks))


def listed_prior(chains: Sequence[tuple[float, float, float]]) -> SharePrior:
    """For a Θ that lists chains, each as likely: of each its share, and a window's variance and correlation."""
    shares = [share for share, _, _ in chains]
    centre = math.fsum(shares) / len(shares)
    spread = math.sqrt(math.fsum((share - centre) ** 2 for share in shares) / len(shares))
    return _over(centre, spread, [(variance, correlation) for _, variance, correlation in chains])


def _over(centre: float, spread: float, chains: Sequence[tuple[float, float]]) -> SharePrior:
    deviations = [math.sqrt(variance) for variance, _ in chains]
    correlations = [correlation for _, correlation in chains]
    return SharePrior(
        centre, spread, (min(deviations), max(deviations)), (min(correlations), max(correlations))
    )


def _moments(enter: Sequence[float], leave: Sequence[float], ticks: int) -> list[tuple[float, float]]:
    return [window_moments(q, r, ticks) for q, r in _corners(enter, leave)]


def _corners(enter: Sequence[float], leave: Sequence[float]) -> Iterator[tuple[float, float]]:
    """The corners of Θ, and the slowest of its chains with a share of a half, where shares vary most."""
    yield from product(enter, leave)
    both = max(enter[0], leave[0])
    if both <= min(enter[1], leave[1]):
        yield both, both


def window_moments(q: float, r: float, ticks: int) -> tuple[float, float]:
    """The variance of a window's share of a two-state chain, and its correlation with that of the next window."""
    fast = q + r  # 1 − λ
    spread = q * r / fast**2
    if fast * ticks < CONSTANT:
        return spread, 1.0
    correlation = 1 - fast
    left = -math.expm1(ticks * math.log(correlation)) if correlation > 0 else 1 - correlation**ticks
    variance = max(
        0.0, spread / ticks * ((1 + correlation) / fast - 2 * correlation * left / (ticks * fast**2))
    )
    covariance = spread * correlation * (left / (ticks * fast)) ** 2
    return variance, min(1.0, covariance / variance) if variance > 0 else 0.0
