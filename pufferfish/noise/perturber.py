"""Perturbation of states: 64-bit words from the operating system's generator, compared with integer thresholds.

A probability is realised as a number of the 2^64 equally likely words. Thresholds are rounded towards more noise, so
the realised tilt never exceeds the stated one (docs/theory.md, section 9). Error texts contain no state.

Noise is drawn before the state is known: `prepare` draws one word per tick and works out the output for every state
that the tick may have; `select` then picks one of them by index. So the time a draw takes can depend on the word but
not on the state, and neither the work nor the branches of a selection depend on the state or on the outcome. The
outputs of one tick for different states share its word. That leaves the law exact: a tick has one state, of its
outputs one is ever used, and for each state the words that give an output are as many as its probability states.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, chain, pairwise

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.noise.random_words import WORD, random_words

_RANGE = 1 << WORD


def threshold(probability: float) -> int:
    """The smallest k with k/2^64 ≥ probability."""
    if not (0.0 <= probability <= 1.0):
        raise ValueError(f"probability is {probability!r}; it must be in [0, 1]")
    return math.ceil(Fraction(probability) * _RANGE)


class Perturber:
    """Independent noise on bits: each 0 becomes 1 with probability ρ0, each 1 becomes 0 with probability ρ1."""

    def __init__(self, noise: BinaryNoise) -> None:
        self._thresholds = (threshold(noise.rho0), threshold(noise.rho1))

    def prepare(self, count: int) -> BitDraws:
        """The noise of `count` ticks, drawn before their states are known."""
        flip0, flip1 = self._thresholds
        words = random_words(count)
        return BitDraws(bytes([word < flip0 for word in words]), bytes([word >= flip1 for word in words]))

    def perturb(self, states: Iterable[int]) -> bytes:
        """One perturbed byte, 0 or 1, for each state."""
        raw = bytes(states)
        return self.prepare(len(raw)).select(raw)


class Draws(ABC):
    """Noise of some ticks, drawn ahead. It is used once: the same noise on two states would tell their difference."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._used = False

    def select(self, states: Iterable[int]) -> bytes:
        """One perturbed byte for each state, in order; ValueError for other states, or another number of them."""
        raw = bytes(states)
        if self._used:
            raise RuntimeError("noise was about to be used a second time")
        if len(raw) != self._count:
            raise ValueError(f"noise was drawn for {self._count} ticks; there must be as many states")
        self._check(raw)
        self._used = True
        return self._select(raw)

    @abstractmethod
    def _check(self, states: bytes) -> None:
        """Raise ValueError, without naming it, if a state is none that the noise is for."""

    @abstractmethod
    def _select(self, states: bytes) -> bytes:
        """The outputs of valid states."""


class BitDraws(Draws):
    """For each tick its output in state 0 and its output in state 1."""

    def __init__(self, zeros: bytes, ones: bytes) -> None:
        super().__init__(len(zeros))
        # As integers with one byte per tick; the byte 1 in front keeps their length when the first outputs are 0.
        self._zeros = int.from_bytes(b"\1" + zeros)
        self._differ = int.from_bytes(zeros) ^ int.from_bytes(ones)

    def _check(self, states: bytes) -> None:
        if states.strip(b"\0\1"):
            raise ValueError("a state is not 0 or 1; the perturber of bits takes only these")

    def _select(self, states: bytes) -> bytes:
        chosen = self._zeros ^ (self._differ & int.from_bytes(b"\1" + states))
        return chosen.to_bytes(self._count + 1)[1:]


def word_counts(emission: Sequence[Sequence[float]]) -> tuple[tuple[int, ...], ...]:
    """How many of the 2^64 words give each output (column) in each state (row); every row sums to 2^64.

    With T = max B[u,z]/B[v,z], the exponential of the stated tilt, all shares of a column lie between l, its smallest
    probability rounded up, and ⌊T·l⌋. So the realised ratios are at most T, exactly, whatever the rounding.
    """
    rows = _as_fractions(emission)
    columns = list(zip(*rows, strict=True))
    lowest = [math.ceil(min(column) * _RANGE) for column in columns]
    widest = max(max(column) / min(column) for column in columns)
    highest = [math.floor(widest * low) for low in lowest]
    if widest == 1 or not sum(lowest) <= _RANGE <= sum(highest):
        raise ValueError(
            "emission: its rows are equal, so the output would be uninformative; they must differ"
        )
    return tuple(_fitted_row(row, lowest, highest) for row in rows)


def _as_fractions(emission: Sequence[Sequence[float]]) -> list[list[Fraction]]:
    """The matrix in fractions; ValueError if it is not a matrix of positive probabilities."""
    k = len(emission)
    if not 2 <= k <= 256:
        raise ValueError(f"emission has {k} rows; it must have one for each of 2 to 256 states")
    outputs = len(emission[0])
    for number, row in enumerate(emission):
        if not (len(row) == outputs and 2 <= outputs <= 256):
            raise ValueError(
                f"emission row {number} has {len(row)} entries; all rows must have the same 2 to 256"
            )
        if not all(0.0 < probability <= 1.0 for probability in row):
            raise ValueError(f"emission row {number} is {list(row)!r}; its entries must be in (0, 1]")
        if not abs(math.fsum(row) - 1.0) <= 1e-9:
            raise ValueError(f"emission row {number} sums to {math.fsum(row)!r}; it must sum to 1")
    return [[Fraction(probability) for probability in row] for row in emission]


def _fitted_row(row: Sequence[Fraction], lowest: Sequence[int], highest: Sequence[int]) -> tuple[int, ...]:
    """Word counts next to the row's probabilities, within the columns' bounds, that sum to 2^64."""
    fitted = [
        max(math.floor(probability * _RANGE), low) for probability, low in zip(row, lowest, strict=True)
    ]
    # Distribute the rounding remainder to the most likely outputs, where it is relatively smallest.
    missing = _RANGE - sum(fitted)
    for z in sorted(range(len(fitted)), key=fitted.__getitem__, reverse=True):
        share = min(max(fitted[z] + missing, lowest[z]), highest[z])
        missing -= share - fitted[z]
        fitted[z] = share
    return tuple(fitted)


class CategoryPerturber:
    """Independent noise on categories: state u becomes output z with probability emission[u][z]."""

    def __init__(self, emission: Sequence[Sequence[float]]) -> None:
        bounds = [list(accumulate(row))[:-1] for row in word_counts(emission)]
        # The bounds of all states together divide the words into cells; within a cell every state has one output.
        self._cuts = sorted(set(chain.from_iterable(bounds)))
        self._outputs = [self._outputs_by_cell(row) for row in bounds]

    def _outputs_by_cell(self, bounds: Sequence[int]) -> bytes:
        """The output in each cell, for the state whose row has these bounds."""
        ends = [bisect_right(self._cuts, bound) for bound in bounds] + [len(self._cuts) + 1]
        return b"".join(
            bytes([output]) * (end - start) for output, (start, end) in enumerate(pairwise([0, *ends]))
        )

    def prepare(self, count: int) -> CategoryDraws:
        """The noise of `count` ticks, drawn before their states are known."""
        cuts = self._cuts
        return CategoryDraws([bisect_right(cuts, word) for word in random_words(count)], self._outputs)

    def perturb(self, states: Iterable[int]) -> bytes:
        """One perturbed byte, the number of an output, for each state."""
        raw = bytes(states)
        return self.prepare(len(raw)).select(raw)


class CategoryDraws(Draws):
    """For each tick the cell of its word, which determines its output in every state."""

    def __init__(self, cells: Sequence[int], outputs: Sequence[bytes]) -> None:
        super().__init__(len(cells))
        self._cells, self._outputs = cells, outputs

    def _check(self, states: bytes) -> None:
        if states and max(states) >= len(self._outputs):
            raise ValueError(f"a state is not among the emission's; they are 0 to {len(self._outputs) - 1}")

    def _select(self, states: bytes) -> bytes:
        outputs = self._outputs
        return bytes([outputs[state][cell] for state, cell in zip(states, self._cells, strict=True)])
