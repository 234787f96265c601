"""Witnesses of a loss: outputs around one tick, and known states beyond them, with a large log-likelihood ratio.

On a stream with the same noise at every tick the outputs with the largest ratio in favour of state a all equal a
(q+r ≤ 1) or alternate outwards from it (q+r > 1), and the informed adversary knows the states just beyond them
(docs/theory.md, Theorems 2 and 4, sections 4 and 10). A witness is a finite part of such a transcript. Its two
likelihoods are exact; their log-ratio is a lower bound on the loss and converges to it with the number of ticks. Longer
witnesses are rarer, so an audit that counts events chooses a shorter one.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, product

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

MAX_TICKS = 13
"""The largest number of observed ticks, so that all paths through them can be enumerated."""


SidePaths = list[tuple[tuple[int, ...], float]]
"""The states on one side of the attacked tick, counted outwards, and their probability given its state."""


def joint_paths(before: SidePaths, state: int, after: SidePaths) -> tuple[list[bytes], list[float]]:
    """Every path with `state` at the attacked tick, and cumulative probabilities: given it, sides are independent."""
    paths, weights = [], []
    for left, chance_left in before:
        for right, chance_right in after:
            paths.append(bytes((*reversed(left), state, *right)))
            weights.append(chance_left * chance_right)
    return paths, list(accumulate(weights))


@dataclass(frozen=True, slots=True)
class ObservedSide:
    """One side of the attacked tick: the number of observed ticks, and the known state of the tick beyond, if any."""

    observed: int
    known: int | None = None


@dataclass(frozen=True, slots=True)
class Witness:
    """Outputs around one tick of a chain that favour `state`, from left to right."""

    q: float
    r: float
    state: int
    left: ObservedSide
    right: ObservedSide

    @property
    def other(self) -> int:
        """The state that the outputs speak against: the other one."""
        return 1 - self.state

    @property
    def outputs(self) -> bytes:
        """The output at each observed tick."""
        distances = range(-self.left.observed, self.right.observed + 1)
        alternates = self.q + self.r > 1.0
        return bytes(self.state ^ (alternates and distance % 2) for distance in distances)

    @property
    def words(self) -> str:
        """A description of the outputs and the known states."""
        known = "" if self.left.known is None else f" between known {self.left.known}s"
        return "".join(map(str, self.outputs)) + known

    def likelihoods(self, noise: BinaryNoise) -> tuple[float, float]:
        """P(outputs | X_i = state, known) and P(outputs | X_i = the other, known)."""
        observed = self.outputs
        middle = self.left.observed
        found = []
        for x in (self.state, self.other):
            chance = _output_probability(noise, x, observed[middle])
            chance *= self._side(noise, x, observed[:middle], self.left)
            chance *= self._side(noise, x, observed[:middle:-1], self.right)
            found.append(chance)
        return found[0], found[1]

    def loss(self, noise: BinaryNoise) -> float:
        """The log-ratio of the likelihoods: a lower bound on the loss."""
        right, wrong = self.likelihoods(noise)
        return math.log(right) - math.log(wrong)

    def paths(self, state: int) -> tuple[list[bytes], list[float]]:
        """Every path through the observed ticks with `state` at the attacked one, and cumulative probabilities.

        The probabilities are those of the chain given the state and the known states.
        """
        before, after = (self._side_paths(state, side) for side in (self.left, self.right))
        return joint_paths(before, state, after)

    def _side_paths(self, state: int, side: ObservedSide) -> SidePaths:
        """Every path outwards from the attacked tick, with its probability given the known state beyond."""
        side_paths = []
        for path in product((0, 1), repeat=side.observed):
            chance, x = 1.0, state
            for y in path:
                chance *= self._transition_probability(x, y)
                x = y
            if side.known is not None:
                chance *= self._transition_probability(x, side.known)
            side_paths.append((path, chance))
        total = math.fsum(chance for _, chance in side_paths)
        return [(path, chance / total) for path, chance in side_paths]

    def _side(self, noise: BinaryNoise, state: int, inwards: bytes, side: ObservedSide) -> float:
        """P(one side's outputs | X_i = state, known state beyond), by the backward recursion from the far end."""
        with_outputs = without = [1.0 if side.known in {None, x} else 0.0 for x in (0, 1)]
        # One step from the last observed tick to the known one, then one step for each observed tick.
        if side.known is not None:
            with_outputs = without = self._step(with_outputs)
        for z in inwards:
            with_outputs = self._step([_output_probability(noise, x, z) * with_outputs[x] for x in (0, 1)])
            without = self._step(without)
        return with_outputs[state] / without[state]

    def _step(self, values: Sequence[float]) -> list[float]:
        """E[value of the next state | this state]; the same in both directions of time for a two-state chain."""
        return [sum(self._transition_probability(x, y) * values[y] for y in (0, 1)) for x in (0, 1)]

    def _transition_probability(self, x: int, y: int) -> float:
        leaves = self.r if x else self.q
        return leaves if x != y else 1.0 - leaves


def _output_probability(noise: BinaryNoise, x: int, z: int) -> float:
    flips = noise.rho1 if x else noise.rho0
    return flips if x != z else 1.0 - flips


def best(
    q: float, r: float, noise: BinaryNoise, state: int, adversary: Adversary, *, ticks: int, deviations: float
) -> Witness:
    """The witness with the largest expected confidence bound if `ticks` ticks are perturbed, half given each state.

    That bound is approximated by its loss minus `deviations` standard errors of the two counts.
    """

    def shows(witness: Witness) -> float:
        draws = ticks / 2 / len(witness.outputs)
        chances = witness.likelihoods(noise)
        errors = (math.sqrt((1.0 - chance) / (chance * draws)) for chance in chances)
        return witness.loss(noise) - deviations * sum(errors)

    return max((Witness(q, r, state, *sides) for sides in _sides(adversary)), key=shows)


def _sides(adversary: Adversary) -> Iterator[tuple[ObservedSide, ObservedSide]]:
    """Sides of equal length, or the right one longer by one tick, with the same known state or none."""
    for observed in range((MAX_TICKS - 1) // 2 + 1):
        for longer in (0, 1):
            if 2 * observed + longer + 1 > MAX_TICKS:
                continue
            for known in (None, 0, 1) if adversary == "informed" else (None,):
                yield ObservedSide(observed, known), ObservedSide(observed + longer, known)
