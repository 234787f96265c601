"""A box of chains with two regimes: intervals of all six parameters, and a certified loss for every chain in it.

The parameters are the probabilities of leaving either regime and (q, r) within each. With the others fixed, every entry
of the kernel is affine in any one of them, and so are the weights of futures and of pasts, which are sums of products
of entries with fixed weights. A ratio of two positive affine functions is monotone: so the largest one over the box is
at a corner, pair by pair of states, and a bound of a side that one step keeps at all corners holds for every chain of
the box (docs/theory-regime-sets.md, Theorem R14).

Pasts are weighed without dividing by the law of the state, which is no affine function: what remains of that is the
least odds of the bit over the box, which is at a corner known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from hushmq.pufferfish.regimes.cone_ratio import largest_ratio
from hushmq.pufferfish.regimes.cone_side import Attained, ConeStep, endless_side, total
from hushmq.pufferfish.regimes.regime_bound import RegimeSides
from hushmq.pufferfish.regimes.regime_chain import Matrix, RegimeChain, Vector

Interval = tuple[float, float]

_ROUNDING = 1e-12
_ROUNDS = 400
_SETTLED = 1e-7
_SLACK = 1e-6
"""Nats: what is added to all pairs of a bound across a stride, so that one more step proves it."""


class CornerStep(ConeStep):
    """One step of any kernel of a box, seen from every pair of states: the largest of its corners.

    Rows need not sum to 1: their sums are part of the ratio.
    """

    def __init__(self, corners: Sequence[Matrix]) -> None:
        super().__init__(corners[0])
        self._choices = {
            (x, y): list(
                {(*corner[x], *corner[y]): _normalised(corner[x], corner[y]) for corner in corners}.values()
            )
            for x, y in self.pairs
        }

    def _largest(self, x: int, y: int, W: Matrix, near: float) -> tuple[float, Attained]:
        best: tuple[float, Attained] | None = None
        for a, b, off in self._choices[x, y]:
            ratio = largest_ratio(a, b, W, math.exp(near - off))
            bound = math.log(ratio.value) + off + _ROUNDING
            if best is None or bound > best[0]:
                best = bound, (a, b, ratio)
        if best is None:
            raise ValueError("a box has at least one corner")
        return best


def _normalised(a: Vector, b: Vector) -> tuple[Vector, Vector, float]:
    """Both rows with the sum 1, and the logarithm of the ratio of their sums."""
    left, right = math.fsum(a), math.fsum(b)
    return [one / left for one in a], [one / right for one in b], math.log(left / right)


@dataclass(frozen=True)
class RegimeCorners:
    """Intervals of the probabilities of leaving the lower and the upper regime, and of q and r within each.

    In every chain of the box the regimes are in order, q0 ≤ q1 and r0 ≥ r1, stay rather than change, and bits too.
    """

    up: Interval
    down: Interval
    q: tuple[Interval, Interval]
    r: tuple[Interval, Interval]

    def __post_init__(self) -> None:
        for low, high in self._sides:
            if not 0.0 < low <= high < 1.0:
                raise ValueError(f"an interval is {low!r} to {high!r}; it must be inside (0, 1)")
        ordered = self.q[0][1] <= self.q[1][0] and self.r[1][1] <= self.r[0][0]
        steady = all(q[1] + r[1] <= 1.0 for q, r in zip(self.q, self.r, strict=True))
        if not ordered or not steady or self.up[1] + self.down[1] > 1.0:
            raise ValueError(
                "regimes of a box must be in order, and bits and regimes must stay rather than change"
            )

    @classmethod
    def around(cls, chain: RegimeChain, share: float) -> RegimeCorners:
        """Every probability of leaving a regime or a bit may be so much larger or smaller, as a share of itself."""
        if chain.regimes != 2:
            raise ValueError(f"{chain.regimes} regimes; boxes are for two")
        (_, up), (down, _) = chain.transition
        (q0, r0), (q1, r1) = chain.chains
        ends = [(one * (1.0 - share), one * (1.0 + share)) for one in (up, down, q0, r0, q1, r1)]
        return cls(ends[0], ends[1], (ends[2], ends[4]), (ends[3], ends[5]))

    @property
    def _sides(self) -> tuple[Interval, ...]:
        return self.up, self.down, self.q[0], self.r[0], self.q[1], self.r[1]

    @cached_property
    def corners(self) -> tuple[RegimeChain, ...]:
        """The chains at its corners, up to 64."""
        return tuple(dict.fromkeys(_chain(*corner) for corner in product(*self._sides)))

    def chain_at(self, places: Sequence[float]) -> RegimeChain:
        """The chain at these places between the ends of the intervals, each from 0 to 1."""
        return _chain(
            *(low + place * (high - low) for (low, high), place in zip(self._sides, places, strict=True))
        )

    @cached_property
    def _middle(self) -> RegimeSides:
        return RegimeSides(self.chain_at([0.5] * len(self._sides)))

    @cached_property
    def _steps(self) -> dict[bool, CornerStep]:
        """Of the future; and of the past, whose weights are multiples of the middle chain's law."""
        law = self._middle.chain.stationary
        states = range(len(law))
        kernels = [corner.kernel for corner in self.corners]
        backwards = [[[law[z] * one[z][x] / law[x] for z in states] for x in states] for one in kernels]
        return {True: CornerStep(kernels), False: CornerStep(backwards)}

    @cached_property
    def odds_below(self) -> tuple[float, float]:
        """By how much the log-odds of bit 0, and of bit 1, are less in some chain of the box than in the middle one.

        The one with the most ones leaves the lower regime most often and the upper one least often, with the largest q
        and the least r; the one with the fewest is opposite.
        """
        (up, down, q0, r0, q1, r1) = self._sides
        most = _chain(up[1], down[0], q0[1], r0[0], q1[1], r1[0])
        fewest = _chain(up[0], down[1], q0[0], r0[1], q1[0], r1[1])
        middle = _log_odds(self._middle.chain)
        return (
            max(0.0, _log_odds(most) - middle) + _ROUNDING,
            max(0.0, middle - _log_odds(fewest)) + _ROUNDING,
        )

    def directed_losses(self, tau0: float, tau1: float, stride: int = 1) -> tuple[float, float]:
        """A certified loss of an endless stream with these tilts at every `stride`-th tick, for every chain of the box.

        Towards either bit, worst over all ticks, against the prior adversary; infinite where none is proved.
        """
        try:
            return self._certified(tau0, tau1, stride)
        except ValueError:
            return math.inf, math.inf

    def _certified(self, tau0: float, tau1: float, stride: int) -> tuple[float, float]:
        sides, tilt = self._middle, self._middle.tilt_matrix(tau0, tau1)
        past, future = (self._side(forwards, tilt, stride) for forwards in (False, True))
        losses = [
            tau + sides.bit_bound(total(past[-1], future[-1]), bit) for bit, tau in enumerate((tau0, tau1))
        ]
        for place in range(stride - 1):
            both = total(past[place], future[stride - 2 - place])
            losses = [max(loss, sides.bit_bound(both, bit)) for bit, loss in enumerate(losses)]
        zero, one = (loss + below for loss, below in zip(losses, self.odds_below, strict=True))
        return zero, one

    def _side(self, forwards: bool, tilt: Matrix, stride: int) -> list[Matrix]:
        """What a side tells 1, 2, … `stride` ticks after a published tick, which it includes."""
        step = self._steps[forwards]
        if stride == 1:
            return [endless_side(step, tilt, self._middle.nothing)]
        R = self._middle.nothing
        for _ in range(_ROUNDS):
            beyond = _across(step, total(tilt, R), stride)[-1]
            far = max(abs(beyond[x][y] - R[x][y]) for x, y in step.pairs)
            R = beyond
            if far < _SETTLED:
                break
        for more in (1, 10, 100, 1000):
            raised = [
                [one + more * _SLACK if x != y else 0.0 for y, one in enumerate(row)]
                for x, row in enumerate(R)
            ]
            found = _across(step, total(tilt, raised), stride)
            if all(found[-1][x][y] <= raised[x][y] for x, y in step.pairs):
                return [*found[:-1], raised]
        raise ValueError("no bound of what the regimes tell was proved for these tilts")


def _across(step: CornerStep, D: Matrix, ticks: int) -> list[Matrix]:
    """The bounds 1, 2, … ticks away from what varies by at most e^D, each step with any kernel of the box."""
    found = []
    for _ in range(ticks):
        D = step.bound(D, D)
        found.append(D)
    return found


def _chain(up: float, down: float, q0: float, r0: float, q1: float, r1: float) -> RegimeChain:
    return RegimeChain(((1.0 - up, up), (down, 1.0 - down)), ((q0, r0), (q1, r1)))


def _log_odds(chain: RegimeChain) -> float:
    """Of bit 1."""
    return math.log(chain.ones / (1.0 - chain.ones))
