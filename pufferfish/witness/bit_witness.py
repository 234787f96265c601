"""Witnesses: what an adversary is told and sees around one tick that gives away the most about its state.

On a stream with the same noise at every tick the most telling outputs towards state a all agree with it (q+r ≤ 1), or
alternate from it outwards (q+r > 1), and an informed adversary is told the state just beyond them on either side
(docs/theory.md, Theorems 2 and 4, sections 4 and 10). A witness is a finite piece of that: how many ticks are seen on
each side, and what is told beyond. Its two likelihoods are exact; their log-ratio is a lower bound on the loss, and
grows towards it with the ticks. The more ticks, the rarer it is, so who must count events takes a shorter one.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

from hushmq.pufferfish.binary.stream_loss import Adversary, Noise

LONGEST = 13
"""Ticks seen at most: all paths through them can be listed."""


Ways = list[tuple[tuple[int, ...], float]]
"""States outwards from the attacked tick on one side of it, and their probability given its state."""


def joined(before: Ways, state: int, after: Ways) -> tuple[list[bytes], list[float]]:
    """Every path of two ways from one state, and cumulated probabilities: the sides are independent given it."""
    paths, weights = [], []
    for left, chance_left in before:
        for right, chance_right in after:
            paths.append(bytes((*reversed(left), state, *right)))
            weights.append(chance_left * chance_right)
    return paths, list(accumulate(weights))


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the attacked tick: how many ticks are seen, and the state told of the one beyond, if any."""

    seen: int
    told: int | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """Outputs around one tick of a chain, towards `state`, from the left end to the right."""

    q: float
    r: float
    state: int
    left: Side
    right: Side

    @property
    def other(self) -> int:
        """The state that the outputs speak against."""
        return 1 - self.state

    @property
    def outputs(self) -> bytes:
        """The output at each tick seen."""
        distances = range(-self.left.seen, self.right.seen + 1)
        alternates = self.q + self.r > 1.0
        return bytes(self.state ^ (alternates and distance % 2) for distance in distances)

    @property
    def words(self) -> str:
        """What is seen and told."""
        told = "" if self.left.told is None else f" between known {self.left.told}s"
        return "".join(map(str, self.outputs)) + told

    def likelihoods(self, noise: Noise) -> tuple[float, float]:
        """P(outputs | X_i = state, told) and P(outputs | X_i = the other, told)."""
        seen = self.outputs
        middle = self.left.seen
        found = []
        for x in (self.state, self.other):
            chance = _emits(noise, x, seen[middle])
            chance *= self._side(noise, x, seen[:middle], self.left)
            chance *= self._side(noise, x, seen[:middle:-1], self.right)
            found.append(chance)
        return found[0], found[1]

    def loss(self, noise: Noise) -> float:
        """The log-ratio of the likelihoods: what this witness alone gives away."""
        right, wrong = self.likelihoods(noise)
        return math.log(right) - math.log(wrong)

    def paths(self, state: int) -> tuple[list[bytes], list[float]]:
        """Every path through the ticks seen with that state at the attacked one, and cumulated probabilities.

        They are the probabilities an adversary believes in, given the state and what is told.
        """
        before, after = (self._ways(state, side) for side in (self.left, self.right))
        return joined(before, state, after)

    def _ways(self, state: int, side: Side) -> Ways:
        """Every way outwards from the attacked tick, with its probability given what is told beyond."""
        ways = []
        for way in product((0, 1), repeat=side.seen):
            chance, x = 1.0, state
            for y in way:
                chance *= self._moves(x, y)
                x = y
            if side.told is not None:
                chance *= self._moves(x, side.told)
            ways.append((way, chance))
        total = math.fsum(chance for _, chance in ways)
        return [(way, chance / total) for way, chance in ways]

    def _side(self, noise: Noise, state: int, inwards: bytes, side: Side) -> float:
        """P(one side's outputs | X_i = state, told beyond them), by the backward recursion from the far end."""
        with_outputs = without = [1.0 if side.told in {None, x} else 0.0 for x in (0, 1)]
        # The step from the last tick seen to the one that is told, then one step for each tick seen.
        if side.told is not None:
            with_outputs = without = self._step(with_outputs)
        for z in inwards:
            with_outputs = self._step([_emits(noise, x, z) * with_outputs[x] for x in (0, 1)])
            without = self._step(without)
        return with_outputs[state] / without[state]

    def _step(self, values: Sequence[float]) -> list[float]:
        """E[value of the next state | this state]; the same in both directions of time."""
        return [sum(self._moves(x, y) * values[y] for y in (0, 1)) for x in (0, 1)]

    def _moves(self, x: int, y: int) -> float:
        leaves = self.r if x else self.q
        return leaves if x != y else 1.0 - leaves


def _emits(noise: Noise, x: int, z: int) -> float:
    flips = noise.rho1 if x else noise.rho0
    return flips if x != z else 1.0 - flips


def best(
    q: float, r: float, noise: Noise, state: int, adversary: Adversary, *, ticks: int, deviations: float
) -> Witness:
    """The witness that shows the most when so many ticks are perturbed, half of them given each state.

    What it shows is its loss less so many standard errors of the two counts: a guess at a bound from those counts.
    """

    def shows(witness: Witness) -> float:
        draws = ticks / 2 / len(witness.outputs)
        chances = witness.likelihoods(noise)
        errors = (math.sqrt((1.0 - chance) / (chance * draws)) for chance in chances)
        return witness.loss(noise) - deviations * sum(errors)

    return max((Witness(q, r, state, *sides) for sides in _sides(adversary)), key=shows)


def _sides(adversary: Adversary) -> Iterator[tuple[Side, Side]]:
    """Sides of equal length or the right one tick longer, told the same or nothing."""
    for seen in range((LONGEST - 1) // 2 + 1):
        for longer in (0, 1):
            if 2 * seen + longer + 1 > LONGEST:
                continue
            for told in (None, 0, 1) if adversary == "informed" else (None,):
                yield Side(seen, told), Side(seen + longer, told)
