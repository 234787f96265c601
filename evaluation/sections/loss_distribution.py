"""The distribution of the loss about one instant, and the δ that an (ε, δ) guarantee against the prior adversary needs.

The loss L of a transcript w is log P(w | X_i=0) / P(w | X_i=1), and δ(ε) = E[(1 − e^(ε−L))⁺ | X_i=0], the larger of
both directions. A stream's loss is the sum of three independent parts: the instant's own output, the past and the
future.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.thinning.strided_chain import thinned

Values = NDArray[np.float64]
Ends = tuple[int | None, int | None]

POINTS = 4001
_SETTLED = 1e-15
_LONGEST = 4000


def stream_delta(q: float, r: float, flip: float, stride: int, epsilon: float, points: int = POINTS) -> float:
    """An upper bound of δ for an endless stream of which every `stride`-th bit is published, flipped with `flip`.

    Losses are rounded up to a grid at every step; a step does not reverse their order, so their sum is rounded up too.
    """
    q, r = thinned(q, r, stride)
    if q + r > 1.0:
        raise ValueError("the published chain is not positively correlated")
    return max(_delta(q, r, flip, epsilon, points), _delta(r, q, flip, epsilon, points))


def _delta(q: float, r: float, flip: float, epsilon: float, points: int) -> float:
    """δ in the direction of state 0."""
    tilt = math.log((1 - flip) / flip)
    reach = _largest_side(q, r, tilt), _largest_side(r, q, tilt)
    grid = np.linspace(-reach[1], reach[0], points)
    width = grid[1] - grid[0]
    chain, emission = np.array([[1 - q, q], [r, 1 - r]]), np.array([[1 - flip, flip], [flip, 1 - flip]])
    moves = []
    for z, shift in ((0, tilt), (1, -tilt)):
        odds = np.exp(grid + shift)
        after = np.log(((1 - q) * odds + q) / (r * odds + 1 - r))
        moves.append((z, np.clip(np.ceil((after - grid[0]) / width - 1e-9).astype(int), 0, points - 1)))
    law = np.zeros((2, points))
    law[:, math.ceil(-grid[0] / width)] = 1.0
    for _ in range(_LONGEST):
        seen = np.zeros((2, points))  # the law of the loss behind a tick, given its state
        for z, target in moves:
            for state in (0, 1):
                seen[state] += emission[state, z] * np.bincount(target, law[state], points)
        step = chain @ seen
        moved, law = float(np.abs(step - law).sum()), step
        if moved < _SETTLED:
            break
    both = _convolved(law[0], law[0])
    losses = 2 * grid[0] + width * np.arange(2 * points - 1)
    return float(
        sum(
            chance * (both * np.clip(-np.expm1(epsilon - losses - shift), 0.0, None)).sum()
            for chance, shift in ((1 - flip, tilt), (flip, -tilt))
        )
    )


def _largest_side(q: float, r: float, tilt: float) -> float:
    """The largest loss towards 0 of one endless side."""
    m = math.exp(tilt)
    x, y = m * (1 - q), 1 - r
    return math.log((x - y + math.sqrt((x - y) ** 2 + 4 * q * r * m)) / (2 * r)) - tilt


def _convolved(a: Values, b: Values) -> Values:
    """The law of a sum; a Fourier transform has an absolute error of about 1e-17 here, far below any δ."""
    size = 1 << (len(a) + len(b) - 1).bit_length()
    product = np.fft.irfft(np.fft.rfft(a, size) * np.fft.rfft(b, size), size)
    return np.clip(product[: len(a) + len(b) - 1], 0.0, None)


def count_delta(given: tuple[Values, Values], noise: Values, epsilon: float) -> float:
    """δ for a count with integer noise, whose law is symmetric about the middle of `noise`.

    `given` are the laws of the count given the two states of one instant.
    """
    first, second = (np.convolve(law, noise) for law in given)
    return max(
        float(np.clip(a - math.exp(epsilon) * b, 0.0, None).sum())
        for a, b in ((first, second), (second, first))
    )


def count_given(q: float, r: float, ticks: int, ends: Ends = (None, None)) -> tuple[Values, Values]:
    """The laws of the number of ones among `ticks` ticks, given that the middle one is 0, and that it is 1.

    `ends` are the states of the first and the last tick where they are known.
    """
    before = (ticks - 1) // 2
    laws = []
    for state in (0, 1):
        past, future = (
            _ones_from(q, r, state, steps, end)
            for steps, end in zip((before, ticks - 1 - before), ends, strict=True)
        )
        law = np.convolve(past, future)
        laws.append(np.concatenate([np.zeros(state), law, np.zeros(1 - state)]))
    return laws[0], laws[1]


def _ones_from(q: float, r: float, state: int, steps: int, end: int | None) -> Values:
    """The law of the number of ones in the `steps` ticks after a tick in `state`, and as well before it."""
    law = np.zeros((2, steps + 1))
    law[state, 0] = 1.0
    for _ in range(steps):
        zero = law[0] * (1 - q) + law[1] * r
        one = law[0] * q + law[1] * (1 - r)
        law = np.stack([zero, np.concatenate([[0.0], one[:-1]])])
    counted = law.sum(axis=0) if end is None else law[end]
    return np.asarray(counted / counted.sum())


def laplace_law(scale: float) -> Values:
    """The discrete Laplace law of this scale, to beyond 1e-16."""
    reach = math.ceil(40 * scale)
    law = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    return np.asarray(law / law.sum())


def gaussian_law(sigma: float) -> Values:
    """The discrete Gaussian law of this parameter, to beyond 1e-16."""
    reach = math.ceil(9 * sigma)
    law = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma * sigma))
    return np.asarray(law / law.sum())


def spread_of(law: Values) -> float:
    """The standard deviation of noise with this law."""
    reach = len(law) // 2
    return math.sqrt(float((law * np.arange(-reach, reach + 1) ** 2).sum()))


def least_parameter(delta_of: Callable[[float], float], delta: float, low: float, high: float) -> float:
    """The least parameter of a noise with δ at most `delta`, to a thousandth; δ falls with the parameter."""
    while delta_of(high) > delta:
        low, high = high, 2 * high
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return high
