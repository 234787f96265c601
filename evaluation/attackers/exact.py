"""The Bayes-optimal attacker on one tick, by enumeration of all outputs of a stream of up to about forty ticks.

Given the state at the attacked tick, past and future are independent. The 2^l outputs of each side are therefore
enumerated separately, with their likelihoods given either state, and combined by sorting one side: 2^l·l steps instead
of 2^(2l) for all outputs of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmq.evaluation.attackers.hidden import Floats, Hidden


@dataclass(frozen=True, slots=True)
class KnownState:
    """A true state that the attacker knows, at a distance of at least one tick from the attacked one."""

    distance: int
    state: int


def side_likelihoods(hidden: Hidden, ticks: int, known: KnownState | None = None) -> Floats:
    """P(outputs | X_i = a, known), a row for each a and a column for each output of the ticks on one side.

    Given a known state, its output and everything beyond it are irrelevant: only the ticks before it matter. The result
    is the same for both sides, because a two-state chain is reversible.
    """
    step, emission = hidden.step, hidden.emission
    far = np.ones((2, 1))
    if known is not None:
        ticks = min(ticks, known.distance - 1)
        reach = np.linalg.matrix_power(step, known.distance)[:, known.state]
        # Ticks between the last output and the known state have no output.
        far = np.linalg.matrix_power(step, known.distance - ticks)[:, known.state][:, None]
    for _ in range(ticks):
        far = step @ np.concatenate([emission[:, z, None] * far for z in (0, 1)], axis=1)
    if known is not None:
        far = far / reach[:, None]
    return far


@dataclass(frozen=True, slots=True)
class ExactAttack:
    """An attack on one tick: P(X_i = a | known), and P(outputs | X_i = a, known) left, with z_i, and right."""

    prior: Floats
    left: Floats
    right: Floats

    def success(self) -> float:
        """The success of the maximum a posteriori guess: Σ over outputs of max_a P(X_i = a, outputs | known)."""
        right, zeros, ones = self._sorted_right()
        left = self.prior[:, None] * self.left
        # X_i = 0 is the more likely state where the right side's ratio is at least this.
        first = np.searchsorted(right, np.log(left[1]) - np.log(left[0]))
        above, below = zeros[-1] - zeros[first], ones[first]
        return float((left[0] * above + left[1] * below).sum())

    def loss(self) -> float:
        """The largest |log P(outputs | X_i = 0, known)/P(outputs | X_i = 1, known)| over all outputs."""
        left, right = (np.log(each[0]) - np.log(each[1]) for each in (self.left, self.right))
        return float(max(left.max() + right.max(), -left.min() - right.min()))

    def probability_above(self, epsilon: float) -> float:
        """The probability, given the known states, of an output that changes the odds by more than e^ε."""
        right, zeros, ones = self._sorted_right()
        lean = np.log(self.left[0]) - np.log(self.left[1])
        chance = 0.0
        for a, total in ((0, zeros), (1, ones)):
            high = total[-1] - total[np.searchsorted(right, epsilon - lean, side="right")]
            low = total[np.searchsorted(right, -epsilon - lean, side="left")]
            chance += float(self.prior[a] * (self.left[a] * (high + low)).sum())
        return chance

    def _sorted_right(self) -> tuple[Floats, Floats, Floats]:
        """The right side's log-ratios in ascending order, and cumulative likelihoods given 0 and given 1."""
        ratios = np.log(self.right[0]) - np.log(self.right[1])
        order = np.argsort(ratios)
        totals = [np.concatenate([[0.0], np.cumsum(self.right[a][order])]) for a in (0, 1)]
        return ratios[order], totals[0], totals[1]


def attack(
    hidden: Hidden,
    before: int,
    after: int,
    *,
    left: KnownState | None = None,
    right: KnownState | None = None,
) -> ExactAttack:
    """The attack on a tick, given the numbers of outputs before and after it and a known state per side, if any."""
    prior = hidden.stationary
    for known in (left, right):
        if known is not None:
            prior = prior * np.linalg.matrix_power(hidden.step, known.distance)[:, known.state]
    near = side_likelihoods(hidden, before, left)
    seen = np.concatenate([hidden.emission[:, z, None] * near for z in (0, 1)], axis=1)
    return ExactAttack(prior / prior.sum(), seen, side_likelihoods(hidden, after, right))
