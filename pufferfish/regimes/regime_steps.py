"""Steps on the 2K states of a chain with regimes: what varies by at most e^D, seen from elsewhere and as a bit."""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np

from hushmq.pufferfish.quilt.endless_quilt import transport_orders
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix
from hushmq.pufferfish.quilt.transport_step import HIGHEST, Index, TransportStep, pairs_of
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

_NEWTON_STEPS = 16
_PRECISION = 1e-12


class RegimeSteps:
    """The transport steps of one chain with regimes."""

    def __init__(self, chain: RegimeChain) -> None:
        self.chain = chain
        self._step = lru_cache(maxsize=256)(self._new_step)

    @cached_property
    def kernels(self) -> tuple[Matrix, Matrix]:
        """Of one tick backwards and of one tick forwards in time."""
        return np.array(self.chain.reversal), np.array(self.chain.kernel)

    @cached_property
    def _orders(self) -> Index:
        return transport_orders(numeric_chain(self.kernels[1]))

    def tilt_matrix(self, tau0: float, tau1: float) -> Matrix:
        """τ0 from bit 0 to bit 1, τ1 from 1 to 0, nothing between states with the same bit."""
        bit = np.arange(2 * self.chain.regimes) % 2
        towards = bit[None, :] - bit[:, None]
        return np.select([towards == 1, towards == -1], [tau0, tau1], 0.0)

    def bit_bound(self, D: Matrix, bit: int) -> float:
        """The largest change of the log-odds of the bit by what varies by at most e^D between states."""
        law = np.array(self.chain.stationary)
        mine = np.arange(len(law)) % 2 == bit
        a, b = np.where(mine, law, 0.0), np.where(mine, 0.0, law)
        best = float(D[np.ix_(mine, ~mine)].max())
        if not 0.0 < best <= HIGHEST:
            return max(0.0, best)
        count = len(self._orders)
        step = TransportStep(
            len(law),
            np.tile(a / a.sum(), (count, 1)),
            np.tile(b / b.sum(), (count, 1)),
            self._orders,
        )
        choice = np.arange(count)
        guess = np.full(count, best)
        for _ in range(_NEWTON_STEPS):
            moved, _ = step.plan(D, guess, choice)
            moved = np.clip(moved, -HIGHEST, best)
            if np.abs(moved - guess).max() < _PRECISION:
                break
            guess = moved
        _, plan = step.plan(D, guess + 2 * _PRECISION, choice)
        # Any plan proves its bound, whether or not the search converged.
        return min(best, float(step.bound(D, plan).min()))

    def step_from(self, D: Matrix, *, future: bool, steps: int) -> Matrix:
        """A bound on what varies by at most e^D at an end, seen from `steps` untilted ticks away from it."""
        step = self._step(future, steps)
        return as_square(step.least_bound(D, np.full(step.pairs, float(D.max()) / 2)))

    def _new_step(self, future: bool, steps: int) -> TransportStep:
        kernel = np.linalg.matrix_power(self.kernels[future], steps)
        return TransportStep.of(kernel, self._orders)


class Between:
    """The unpublished ticks between two published ones, a distance apart, whose pasts and futures vary by at most e^D.

    Averaging does not widen the range of a function, so after any number of steps it varies by at most e^(max D): a run
    of ticks is bounded by the fewest steps to either side, from there. Where that is not enough the run is halved; a
    single tick is bounded from D itself.
    """

    def __init__(self, steps: RegimeSteps, past: Matrix, future: Matrix, distance: int) -> None:
        self._steps, self._distance = steps, distance
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
        return self._steps.bit_bound(past + future, bit)

    def _side(self, ticks: int, single: bool, *, future: bool) -> Matrix:
        """How much a side can vary between states, seen from `ticks` away, or from any more if not `single`."""
        key = (future, single, ticks)
        if key not in self._known:
            end = self._ends[future]
            D = end if single else np.full_like(end, end.max())
            self._known[key] = self._steps.step_from(D, future=future, steps=ticks)
        return self._known[key]


def numeric_chain(kernel: Matrix) -> Chain:
    """A kernel as a chain, its rows normalised."""
    return Chain((kernel / kernel.sum(axis=1, keepdims=True)).tolist())


def as_square(over_pairs: Matrix) -> Matrix:
    """A vector over ordered pairs as a matrix with a zero diagonal."""
    size = round((1 + np.sqrt(1 + 4 * len(over_pairs))) / 2)
    found = np.zeros((size, size))
    found[pairs_of(size)] = over_pairs
    return found
