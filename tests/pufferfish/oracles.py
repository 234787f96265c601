"""Losses by definition: all paths of a short binary chain, all outputs, every known set with all its values.

Nothing here knows a theorem. A mechanism is a matrix of likelihoods, one row per output (up to a factor, which
cancels) and one column per path; paths are the integers 0 … 2^n−1, tick t being bit t. Everything is exhaustive, so
keep n at 8 or less.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Attack:
    """The most telling thing that can happen: its loss, the tick, what is known (tick → state), the output."""

    loss: float
    tick: int
    known: dict[int, int]
    output: int


def states(n: int) -> NDArray[np.int64]:
    """The state at every tick (row) of every path (column)."""
    return (np.arange(2**n)[None, :] >> np.arange(n)[:, None]) & 1


def path_probabilities(q: float, r: float, n: int) -> Array:
    """The probability of every path of the stationary chain."""
    x = states(n)
    stationary = np.array([r, q]) / (q + r)
    step = np.array([[1 - q, q], [r, 1 - r]])
    probability = stationary[x[0]]
    for t in range(1, n):
        probability = probability * step[x[t - 1], x[t]]
    return probability


def local(noises: Sequence[tuple[float, float] | None]) -> Array:
    """Independent noise (ρ0, ρ1) on each tick; None publishes nothing there."""
    n = len(noises)
    x = states(n)
    published = [t for t in range(n) if noises[t] is not None]
    rows = []
    for z in itertools.product((0, 1), repeat=len(published)):
        row = np.ones(2**n)
        for t, bit in zip(published, z, strict=True):
            rho = noises[t]
            assert rho is not None
            emission = np.array([[1 - rho[0], rho[0]], [rho[1], 1 - rho[1]]])
            row = row * emission[x[t], bit]
        rows.append(row)
    return np.array(rows)


def count(n: int, first: int, last: int, scale: float) -> Array:
    """The number of ones among the ticks first … last plus discrete Laplace noise of that scale.

    Outputs outside 0 … length have the likelihoods of 0 or of the length, up to a factor.
    """
    ones = states(n)[first : last + 1].sum(axis=0)
    return np.array([np.exp(-np.abs(w - ones) / scale) for w in range(last - first + 2)])


def both(one: Array, other: Array) -> Array:
    """The mechanism that publishes the outputs of two."""
    return (one[:, None, :] * other[None, :, :]).reshape(-1, one.shape[1])


def from_sanitized(noises: Sequence[tuple[float, float]], release: Array) -> Array:
    """A release computed from the sanitized stream, seen by those who cannot read the stream."""
    emission = local(noises)  # one row per sanitized path, in the order of itertools.product
    n = len(noises)
    order = [sum(bit << t for t, bit in enumerate(z)) for z in itertools.product((0, 1), repeat=n)]
    return release[:, order] @ emission


def known_sets(n: int, tick: int, informed: bool) -> Iterator[dict[int, int]]:
    """Every set of other ticks with every value of their states; only the empty one for the prior adversary."""
    others = [t for t in range(n) if t != tick]
    for size in range(len(others) + 1 if informed else 1):
        for chosen in itertools.combinations(others, size):
            for values in itertools.product((0, 1), repeat=size):
                yield dict(zip(chosen, values, strict=True))


def attack(
    q: float, r: float, likelihoods: Array, *, informed: bool, ticks: Iterable[int] | None = None
) -> Attack:
    """The largest log P(w | X_i=a, known)/P(w | X_i=b, known) over everything."""
    n = likelihoods.shape[1].bit_length() - 1
    x, probability = states(n), path_probabilities(q, r, n)
    best = Attack(-1.0, -1, {}, -1)
    for tick in range(n) if ticks is None else ticks:
        for known in known_sets(n, tick, informed):
            allowed = np.ones(2**n, dtype=bool)
            for t, state in known.items():
                allowed &= x[t] == state
            zero, one = allowed & (x[tick] == 0), allowed & (x[tick] == 1)
            p0 = likelihoods[:, zero] @ probability[zero] / probability[zero].sum()
            p1 = likelihoods[:, one] @ probability[one] / probability[one].sum()
            change = np.abs(np.log(p0) - np.log(p1))
            output = int(np.argmax(change))
            if change[output] > best.loss:
                best = Attack(float(change[output]), tick, known, output)
    return best


def lipschitz(rng: np.random.Generator, tau0: Sequence[float], tau1: Sequence[float], rows: int) -> Array:
    """Random likelihoods with these tilts: changing tick t alone favours 0 by at most τ0[t] and 1 by at most τ1[t].

    The largest function below random values that obeys the tilts: min over y of g(y)·Π (factor from y_t to x_t).
    """
    n = len(tau0)
    x = states(n)
    cost = np.zeros((2**n, 2**n))
    for t in range(n):
        cost += np.where((x[t][:, None] == 0) & (x[t][None, :] == 1), tau0[t], 0.0)
        cost += np.where((x[t][:, None] == 1) & (x[t][None, :] == 0), tau1[t], 0.0)
    seeds = rng.exponential(2.0, size=(rows, 2**n))
    return np.exp(np.array([(seed[None, :] + cost).min(axis=1) for seed in seeds]))
