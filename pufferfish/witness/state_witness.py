"""Witnesses for more than two states: the same output at every tick seen around the attacked one.

Given the state at the attacked tick the two sides are independent, so the likelihood of the outputs is a product of two
recursions, one with the chain and one with its time reversal, and the log-ratio for two states is a lower bound on the
loss of every class that holds the chain (docs/theory.md, section 10). Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from hushmq.pufferfish.categorical.transition_intervals import Class, Intervals, Row, Rows
from hushmq.pufferfish.witness.bit_witness import Ways, joined

LISTED = 20_000
"""Paths through the ticks seen, at most."""
FARTHEST = 12
"""Ticks to each side, at most, where nothing is listed."""
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class TwoWay:
    """A stationary chain in both directions of time."""

    forward: Rows
    backward: Rows

    @property
    def k(self) -> int:
        return len(self.forward)

    def chances(self, column: Sequence[float], seen: int) -> list[float]:
        """P(the same output at so many ticks on each side and at the attacked one | its state), for every state.

        `column` is the output's probability in each state. It rises with every entry of the column.
        """
        sides = []
        for step in (self.forward, self.backward):
            far = [1.0] * self.k
            for _ in range(seen):
                far = _mean(step, [c * g for c, g in zip(column, far, strict=True)])
            sides.append(far)
        return [c * left * right for c, left, right in zip(column, *sides, strict=True)]


def member(theta: Class) -> TwoWay | None:
    """A chain of Θ that stays in a state about as long as Θ lets it; None where none of those tried is in Θ.

    The bounds on the reversal may exclude the most lasting chain, so chains nearer to the middle of Θ are tried too.
    """
    bounds = theta.forward.tightened()
    lasting = [
        _lasting(low, high, x) for x, (low, high) in enumerate(zip(bounds.low, bounds.high, strict=True))
    ]
    middle = [_row(low, high) for low, high in zip(bounds.low, bounds.high, strict=True)]
    for eighths in range(8, -1, -1):
        share = eighths / 8
        forward = tuple(
            tuple(share * a + (1 - share) * b for a, b in zip(one, other, strict=True))
            for one, other in zip(lasting, middle, strict=True)
        )
        backward = reversal(forward)
        if _holds(theta.forward, forward) and backward is not None and _holds(theta.backward, backward):
            return TwoWay(forward, backward)
    return None


def reversal(forward: Rows) -> Rows | None:
    """P*(x,u) = π(u)·P(u,x)/π(x); None where a state is never visited."""
    pi = stationary(forward)
    if not min(pi) > 0.0:
        return None
    k = len(forward)
    return tuple(tuple(pi[u] * forward[u][x] / pi[x] for u in range(k)) for x in range(k))


def stationary(forward: Rows) -> list[float]:
    """The stationary law by elimination without a subtraction (Grassmann, Taksar and Heyman), so nothing cancels."""
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

    chain: TwoWay
    output: int
    state: int
    other: int
    seen: int

    @property
    def outputs(self) -> bytes:
        return bytes([self.output]) * (2 * self.seen + 1)

    @property
    def words(self) -> str:
        """What is seen."""
        return f"{2 * self.seen + 1} times {self.output} in a row"

    def paths(self, state: int) -> tuple[list[bytes], list[float]]:
        """Every path through the ticks seen with that state at the attacked one, and cumulated probabilities."""
        return joined(self._ways(self.chain.backward, state), state, self._ways(self.chain.forward, state))

    def _ways(self, step: Rows, state: int) -> Ways:
        ways = []
        for way in product(range(self.chain.k), repeat=self.seen):
            chance = math.prod(step[x][y] for x, y in zip((state, *way), way, strict=False))
            if chance > 0.0:
                ways.append((way, chance))
        return ways


def best_for_states(chain: TwoWay, emission: Rows, *, ticks: int, deviations: float) -> StateWitness:
    """The witness that shows the most when so many ticks are perturbed, half of them given each state."""
    best, most = None, -math.inf
    for seen in range(FARTHEST + 1):
        if seen and chain.k ** (2 * seen) > LISTED:
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


def least_loss(chain: TwoWay, low: Rows, high: Rows) -> float:
    """A loss that independent noise has on this chain if its emission is between these, entry by entry.

    The likelihood of an output at every tick rises with each of its probabilities in the states, so it is least for
    the one state with the lower bounds, and largest for the other with the upper ones.
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
    """Probabilities that sum to one, the same share of the way from low to high."""
    least, room = math.fsum(low), math.fsum(high) - math.fsum(low)
    share = (1 - least) / room if room > 0.0 else 0.0
    return [a + share * (b - a) for a, b in zip(low, high, strict=True)]


def _lasting(low: Row, high: Row, x: int) -> list[float]:
    """As much as possible on the state itself."""
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


def _holds(intervals: Intervals, rows: Rows) -> bool:
    """Whether the matrix lies within, up to rounding."""
    return all(
        low - _ROUNDING <= value <= high + _ROUNDING
        for row, lows, highs in zip(rows, intervals.low, intervals.high, strict=True)
        for value, low, high in zip(row, lows, highs, strict=True)
    )
