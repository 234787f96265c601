"""The best attacker on one tick, exactly: every output of a stream of up to some forty ticks, nothing simulated.

Given the state at the attacked tick, what lies before it and what lies after it are independent. So each side's 2^l
outputs are listed once, with their likelihoods in either case, and the sides are joined by sorting one of them:
2^l·l steps where listing all outputs of the stream would take 2^(2l).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmq.evaluation.attackers.hidden import Floats, Hidden


@dataclass(frozen=True, slots=True)
class Known:
    """A true state the attacker is told: so many ticks away from the attacked one, 1 or more."""

    distance: int
    state: int


def side(hidden: Hidden, ticks: int, known: Known | None = None) -> Floats:
    """P(outputs | X_i = a, known), a row for each a and a column for each output of the ticks on one side.

    A known state shields everything beyond it, and its own output says nothing more: only the ticks before it count.
    The same for both sides, since a two-state chain is reversible.
    """
    step, emission = hidden.step, hidden.emission
    far = np.ones((2, 1))
    if known is not None:
        ticks = min(ticks, known.distance - 1)
        reach = np.linalg.matrix_power(step, known.distance)[:, known.state]
        # With fewer ticks published than lie in between, the rest are silent.
        far = np.linalg.matrix_power(step, known.distance - ticks)[:, known.state][:, None]
    for _ in range(ticks):
        far = step @ np.concatenate([emission[:, z, None] * far for z in (0, 1)], axis=1)
    if known is not None:
        far = far / reach[:, None]
    return far


@dataclass(frozen=True, slots=True)
class Attack:
    """One tick attacked: P(X_i = a | known) and P(outputs | X_i = a, known) on the left, with z_i, and on the right."""

    prior: Floats
    left: Floats
    right: Floats

    def success(self) -> float:
        """How often the likelier state is the true one: Σ over outputs of max_a P(X_i = a, outputs | known)."""
        right, zeros, ones = self._sorted_right()
        left = self.prior[:, None] * self.left
        # X_i = 0 is likelier where the right side's ratio is at least this.
        first = np.searchsorted(right, np.log(left[1]) - np.log(left[0]))
        above, below = zeros[-1] - zeros[first], ones[first]
        return float((left[0] * above + left[1] * below).sum())

    def loss(self) -> float:
        """The largest |log P(outputs | X_i = 0, known)/P(outputs | X_i = 1, known)| over all outputs."""
        left, right = (np.log(each[0]) - np.log(each[1]) for each in (self.left, self.right))
        return float(max(left.max() + right.max(), -left.min() - right.min()))

    def chance_above(self, epsilon: float) -> float:
        """The probability, given what is known, of an output that changes the odds by more than e^ε."""
        right, zeros, ones = self._sorted_right()
        lean = np.log(self.left[0]) - np.log(self.left[1])
        chance = 0.0
        for a, total in ((0, zeros), (1, ones)):
            high = total[-1] - total[np.searchsorted(right, epsilon - lean, side="right")]
            low = total[np.searchsorted(right, -epsilon - lean, side="left")]
            chance += float(self.prior[a] * (self.left[a] * (high + low)).sum())
        return chance

    def _sorted_right(self) -> tuple[Floats, Floats, Floats]:
        """The right side's log-ratios, rising, and the cumulated likelihoods given 0 and given 1, from 0 to 1."""
        ratios = np.log(self.right[0]) - np.log(self.right[1])
        order = np.argsort(ratios)
        totals = [np.concatenate([[0.0], np.cumsum(self.right[a][order])]) for a in (0, 1)]
        return ratios[order], totals[0], totals[1]


def attack(
    hidden: Hidden, before: int, after: int, *, left: Known | None = None, right: Known | None = None
) -> Attack:
    """The attack on the tick with so many ticks before and after it, told a state on the left, the right, or none."""
    prior = hidden.stationary
    for known in (left, right):
        if known is not None:
            prior = prior * np.linalg.matrix_power(hidden.step, known.distance)[:, known.state]
    near = side(hidden, before, left)
    seen = np.concatenate([hidden.emission[:, z, None] * near for z in (0, 1)], axis=1)
    return Attack(prior / prior.sum(), seen, side(hidden, after, right))
