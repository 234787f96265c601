"""A certified loss for every chain with regimes, MTP2 or not: what each side tells, pair by pair of its 2K states.

Changing the bit of a published tick changes the likelihood by at most its tilt; changing the regime alone, not at
all. So the tilt matrix on the 2K states is τ0 or τ1 where bits differ and 0 where they do not, and each side has a
matrix R: what lies on it varies by at most e^R(y, z) between the states y and z (pufferfish/regimes/cone_side.py). What
is asked is not the state but its bit: given the bit, the regime has its stationary law. With D = R_left + R_right the
loss towards bit 0 is τ0 + log max a·g / b·g over g(y) ≤ e^D(y, z)·g(z), where a and b are the stationary laws given
bits 0 and 1 (docs/theory-regime-sets.md, Theorem R12).

Unpublished ticks are instants without a tilt of their own, at j and m−j steps from the published ones beside them.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

from hushmq.pufferfish.regimes.cone_ratio import largest_ratio
from hushmq.pufferfish.regimes.cone_side import HIGHEST, ConeStep, endless_side, kept_above, total
from hushmq.pufferfish.regimes.regime_chain import Matrix, RegimeChain, Vector, power

_ROUNDING = 1e-12


class RegimeSides:
    """One chain with regimes, seen from its bits."""

    def __init__(self, chain: RegimeChain) -> None:
        self.chain, self.size = chain, 2 * chain.regimes
        self.step = lru_cache(maxsize=512)(self._new_step)

    @property
    def nothing(self) -> Matrix:
        """The side beyond which nothing is published."""
        return [[0.0] * self.size for _ in range(self.size)]

    def tilt_matrix(self, tau0: float, tau1: float) -> Matrix:
        """τ0 from bit 0 to bit 1, τ1 from 1 to 0, nothing between states with the same bit."""
        towards = {1: tau0, -1: tau1}
        states = range(self.size)
        return [[towards.get(v % 2 - u % 2, 0.0) for v in states] for u in states]

    def bit_bound(self, D: Matrix, bit: int) -> float:
        """The largest change of the log-odds of the bit by what varies by at most e^D between states."""
        if max(map(max, D)) > HIGHEST:
            raise ValueError("the tilts are too large for a bound")
        W = [[math.exp(one) for one in row] for row in D]
        laws = self._bit_laws
        return max(0.0, math.log(largest_ratio(laws[bit], laws[1 - bit], W).value) + _ROUNDING)

    @cached_property
    def _bit_laws(self) -> tuple[Vector, Vector]:
        """The stationary law given that the bit is 0, and given that it is 1."""
        law = self.chain.stationary
        parts = [[one if state % 2 == bit else 0.0 for state, one in enumerate(law)] for bit in range(2)]
        zero, one = ([part / math.fsum(parts[bit]) for part in parts[bit]] for bit in range(2))
        return zero, one

    def _new_step(self, future: bool, ticks: int) -> ConeStep:
        return ConeStep(power(self.chain.kernel if future else self.chain.reversal, ticks))


class Between:
    """The unpublished ticks between two published ones, a distance apart, whose pasts and futures vary by at most e^D.

    A run of ticks is bounded by the fewest steps to either side: what a bound says of those, raised until one more step
    does not exceed it, holds for any number of steps. Where that is not enough the run is halved.
    """

    def __init__(self, sides: RegimeSides, past: Matrix, future: Matrix, distance: int) -> None:
        self._sides, self._distance = sides, distance
        self._ends = {False: past, True: future}
        self._known: dict[tuple[bool, bool, int], Matrix] = {}

    def worst(self, bit: int, published: float) -> float:
        """The largest loss of any tick: of the published ones, or of those between them if one exceeds it."""
        worst, distance = published, self._distance
        runs = [(1, distance - 1)] if distance > 1 else []
        while runs:
            first, last = runs.pop()
            bound = self._bound(first, last, bit)
            if bound <= worst:
                continue
            if first == last:
                worst = bound
            else:
                middle = (first + last) // 2
                runs += [(first, middle), (middle + 1, last)]
        return worst

    def _bound(self, first: int, last: int, bit: int) -> float:
        """A bound for the ticks first … last after a published one."""
        single = first == last
        past = self._side(first, single, future=False)
        future = self._side(self._distance - last, single, future=True)
        return self._sides.bit_bound(total(past, future), bit)

    def _side(self, ticks: int, single: bool, *, future: bool) -> Matrix:
        """How much a side can vary between states, seen from `ticks` away, or from any more if not `single`."""
        key = (future, single, ticks)
        if key not in self._known:
            self._known[key] = (
                self._sides.step(future, ticks).bound(self._ends[future])
                if single
                else self._farther(self._side(ticks, True, future=future), future)
            )
        return self._known[key]

    def _farther(self, near: Matrix, future: bool) -> Matrix:
        """A bound that holds any number of steps beyond.

        Averages vary no more than what is averaged: no pair will ever exceed the largest bound of all pairs.
        """
        widest, states = max(map(max, near)), range(len(near))
        most = [[widest if x != y else 0.0 for y in states] for x in states]
        return kept_above(self._sides.step(future, 1), self._sides.nothing, near, most)


class StridedRegimes:
    """A chain with regimes of which every `stride`-th tick is published. Each answer begins the search for the next."""

    def __init__(self, chain: RegimeChain, stride: int = 1) -> None:
        self._sides, self._stride = RegimeSides(chain), stride
        self._near = self._sides.nothing, self._sides.nothing

    def directed_losses(self, tau0: float, tau1: float) -> tuple[float, float]:
        """A certified loss of an endless stream with these tilts towards either bit, worst over all ticks.

        Infinite where none is proved.
        """
        try:
            return self._certified_losses(tau0, tau1)
        except ValueError:
            return math.inf, math.inf

    def _certified_losses(self, tau0: float, tau1: float) -> tuple[float, float]:
        tilt = self._sides.tilt_matrix(tau0, tau1)
        past, future = (
            endless_side(self._sides.step(forwards, self._stride), tilt, near)
            for forwards, near in zip((False, True), self._near, strict=True)
        )
        self._near = past, future
        between = Between(self._sides, total(past, tilt), total(future, tilt), self._stride)
        zero, one = (
            between.worst(bit, tau + self._sides.bit_bound(total(past, future), bit))
            for bit, tau in ((0, tau0), (1, tau1))
        )
        return zero, one
