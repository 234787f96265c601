"""Witnesses of a loss for more than two states: the same output at every observed tick around the attacked one.

Given the state at the attacked tick the two sides are independent, so the likelihood of the outputs is a product of two
recursions, one with the chain and one with its time reversal. The log-ratio for two states is a lower bound on the loss
of every Θ that contains the chain (docs/theory.md, section 10). Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import Row, Rows, TransitionIntervals
from hushmq.pufferfish.witness.bit_witness import SidePaths, joint_paths

MAX_PATHS = 20_000
"""The largest number of paths through the observed ticks that are enumerated."""
FARTHEST = 12
"""The largest number of observed ticks on each side."""
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class BidirectionalChain:
    """The transition matrices of a stationary chain in both directions of time."""

    forward: Rows
    backward: Rows

    @property
    def k(self) -> int:
        return len(self.forward)

    def chances(self, column: Sequence[float], seen: int) -> list[float]:
        """P(one output at `seen` ticks on each side and at the attacked one | its state), for every state.

        `column` is the output's probability in each state. The result rises in every entry of the column.
        """
        sides = []
        for step in (self.forward, self.backward):
            far = [1.0] * self.k
            for _ in range(seen):
                far = _mean(step, [c * g for c, g in zip(column, far, strict=True)])
            sides.append(far)
        return [c * left * right for c, left, right in zip(column, *sides, strict=True)]


def most_persistent_chain(theta: CategoricalTheta) -> BidirectionalChain | None:
    """A chain of Θ with nearly the largest self-transition probabilities; None if no candidate is in Θ.

    The bounds on the reversal may exclude the most persistent chain, so mixtures with the middle of Θ are tried too.
    """
    bounds = theta.forward.tightened()
    persistent = [
        _most_persistent_row(low, high, x)
        for x, (low, high) in enumerate(zip(bounds.low, bounds.high, strict=True))
    ]
    middle = [_row(low, high) for low, high in zip(bounds.low, bounds.high, strict=True)]
    for eighths in range(8, -1, -1):
        share = eighths / 8
        forward = tuple(
            tuple(share * a + (1 - share) * b for a, b in zip(one, other, strict=True))
            for one, other in zip(persistent, middle, strict=True)
        )
        backward = reversal(forward)
        if (
            _contains_matrix(theta.forward, forward)
            and backward is not None
            and _contains_matrix(theta.backward, backward)
        ):
            return BidirectionalChain(forward, backward)
    return None


def reversal(forward: Rows) -> Rows | None:
    """P*(x,u) = π(u)·P(u,x)/π(x); None if a state has stationary probability 0."""
    pi = stationary(forward)
    if not min(pi) > 0.0:
        return None
    k = len(forward)
    return tuple(tuple(pi[u] * forward[u][x] / pi[x] for u in range(k)) for x in range(k))


def stationary(forward: Rows) -> list[float]:
    """The stationary law by the algorithm of Grassmann, Taksar and Heyman, which does not subtract."""
    k = len(forward)
    rows = [list(row) for row in forward]
    for n in range(k - 1, 0, -1):
        leaves = math.fsum(rows[n][:n])
        if leaves == 0.0:
            return [0.0] * k
        for i in range(n):
            rows[i][n] /= leaves
            for j in range(n):
                rows[i][j] += rows[i][n] * rows[n][j]
    law = [1.0]
    for n in range(1, k):
        law.append(math.fsum(law[i] * rows[i][n] for i in range(n)))
    total = math.fsum(law)
    return [weight / total for weight in law]


@dataclass(frozen=True, slots=True)
class StateWitness:
    """The output `output` at the attacked tick and `seen` ticks on each side: for `state` and against `other`."""

    chain: BidirectionalChain
    output: int
    state: int
    other: int
    seen: int

    @property
    def outputs(self) -> bytes:
        return bytes([self.output]) * (2 * self.seen + 1)

    @property
    def words(self) -> str:
        """A description of the outputs."""
        return f"{2 * self.seen + 1} times {self.output} in a row"

    def paths(self, state: int) -> tuple[list[bytes], list[float]]:
        """Every path through the observed ticks with `state` at the attacked one, and cumulative probabilities."""
        return joint_paths(
            self._side_paths(self.chain.backward, state), state, self._side_paths(self.chain.forward, state)
        )

    def _side_paths(self, step: Rows, state: int) -> SidePaths:
        side_paths = []
        for path in product(range(self.chain.k), repeat=self.seen):
            chance = math.prod(step[x][y] for x, y in zip((state, *path), path, strict=False))
            if chance > 0.0:
                side_paths.append((path, chance))
        return side_paths


def best_for_states(
    chain: BidirectionalChain, emission: Rows, *, ticks: int, deviations: float
) -> StateWitness:
    """The witness with the largest expected confidence bound if `ticks` ticks are perturbed, half given each state."""
    best, most = None, -math.inf
    for seen in range(FARTHEST + 1):
        if seen and chain.k ** (2 * seen) > MAX_PATHS:
            break
        draws = ticks / 2 / (2 * seen + 1)
        for output in range(chain.k):
            chances = chain.chances([row[output] for row in emission], seen)
            state, other = (chances.index(pick(chances)) for pick in (max, min))
            right, wrong = chances[state], chances[other]
            errors = sum(math.sqrt((1 - chance) / (chance * draws)) for chance in (right, wrong))
            shows = math.log(right / wrong) - deviations * errors
            if best is None or shows > most:
                best, most = StateWitness(chain, output, state, other, seen), shows
    assert best is not None  # noqa: S101  # the witness of one tick is always there
    return best


def least_loss(chain: BidirectionalChain, low: Rows, high: Rows) -> float:
    """Lower bound on the loss of independent noise on this chain, for every emission matrix between `low` and `high`.

    The likelihood of one output at every tick rises in each of its emission probabilities, so the lower bounds give
    its least value in one state, and the upper bounds its largest value in the other.
    """
    best = 0.0
    for output in range(chain.k):
        below, above = ([row[output] for row in rows] for rows in (low, high))
        for seen in range(FARTHEST + 1):
            right, wrong = max(chain.chances(below, seen)), min(chain.chances(above, seen))
            if right > 0.0:
                best = max(best, math.log(right / wrong))
    return best


def _mean(step: Rows, values: Sequence[float]) -> list[float]:
    return [math.fsum(p * value for p, value in zip(row, values, strict=True)) for row in step]


def _row(low: Row, high: Row) -> list[float]:
    """Probabilities that sum to one, each at the same fraction of the way from low to high."""
    least, room = math.fsum(low), math.fsum(high) - math.fsum(low)
    share = (1 - least) / room if room > 0.0 else 0.0
    return [a + share * (b - a) for a, b in zip(low, high, strict=True)]


def _most_persistent_row(low: Row, high: Row, x: int) -> list[float]:
    """The row with the largest self-transition probability."""
    stay = high[x]
    others = [u for u in range(len(low)) if u != x]
    least, most = ([bound[u] for u in others] for bound in (low, high))
    room = math.fsum(most) - math.fsum(least)
    share = (1 - stay - math.fsum(least)) / room if room > 0.0 else 0.0
    row = [0.0] * len(low)
    row[x] = stay
    for u, a, b in zip(others, least, most, strict=True):
        row[u] = a + share * (b - a)
    return row


def _contains_matrix(intervals: TransitionIntervals, rows: Rows) -> bool:
    """Whether the matrix lies within the intervals, up to rounding."""
    return all(
        low - _ROUNDING <= value <= high + _ROUNDING
        for row, lows, highs in zip(rows, intervals.low, intervals.high, strict=True)
        for value, low, high in zip(row, lows, highs, strict=True)
    )
