"""A certified loss for every chain with regimes, MTP2 or not: the per-pair bound on its 2K states.

Changing the bit of a published tick changes the likelihood by at most its tilt; changing the regime alone, not at
all. So the tilt matrix on the 2K states is τ0 or τ1 where bits differ and 0 where they do not, and the tilted quilt
certifies for either side a matrix R: what lies on that side varies by at most e^R(y, z) between the states y and z
(docs/theory-k.md, Theorem 3). What is asked is not the state but its bit: given the bit, the regime has its
stationary law. With D = R_left + R_right the loss towards bit 0 is at most τ0 + log max a·g / b·g over g(y) ≤ e^D(y,
z)·g(z), where a and b are the stationary laws given bits 0 and 1; a transport plan proves it (docs/theory-regimes.md,
Theorem R2).

Unpublished ticks are instants without a tilt of their own, at j and m−j steps from the published ones beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushmq.pufferfish.quilt.endless_quilt import certified_sides, side_solvers, transport_orders
from hushmq.pufferfish.quilt.markov_chain import Chain, Matrix
from hushmq.pufferfish.quilt.side_solver import SideSolver
from hushmq.pufferfish.quilt.transport_step import HIGHEST, Index, TransportStep, pairs_of
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

_NEWTON_STEPS = 16
_PRECISION = 1e-12
_REFINEMENTS, _WORTH_REFINING = 60, 1e-7


@dataclass(frozen=True, eq=False)
class StridedRegimes:
    """A chain with regimes of which every `stride`-th tick is published."""

    chain: RegimeChain
    stride: int = 1

    def loss(self, tau0: float, tau1: float) -> float:
        """A certified loss of an endless stream with these tilts, worst over all ticks."""
        return max(self.directed_losses(tau0, tau1))

    def directed_losses(self, tau0: float, tau1: float) -> tuple[float, float]:
        """The same towards either bit."""
        tilt = self._tilt_matrix(tau0, tau1)
        past, future = (
            _refined(solver.step, tilt, _square(side.R))
            for solver, side in zip(self._sides, certified_sides(self._sides, tilt), strict=True)
        )
        at_published = [tau + self.bit_bound(past + future, bit) for bit, tau in ((0, tau0), (1, tau1))]
        between = _Between(self, past + tilt, future + tilt)
        zero, one = (between.worst(bit, at_published[bit]) for bit in range(2))
        return zero, one

    @cached_property
    def _kernels(self) -> tuple[Matrix, Matrix]:
        return np.array(self.chain.reversal), np.array(self.chain.kernel)

    @cached_property
    def _sides(self) -> tuple[SideSolver, SideSolver]:
        _, kernel = self._kernels
        return side_solvers(_chain(np.linalg.matrix_power(kernel, self.stride)))

    @cached_property
    def _orders(self) -> Index:
        return transport_orders(_chain(self._kernels[1]))

    def _tilt_matrix(self, tau0: float, tau1: float) -> Matrix:
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
        kernel = np.linalg.matrix_power(self._kernels[future], steps)
        step = TransportStep.of(kernel, self._orders)
        return _square(step.least_bound(D, np.full(step.pairs, float(D.max()) / 2)))


class _Between:
    """The unpublished ticks between two published ones, whose pasts and futures vary by at most e^D.

    Averaging does not widen the range of a function, so after any number of steps it varies by at most e^(max D): a run
    of ticks is bounded by the fewest steps to either side, from there. Where that is not enough the run is halved; a
    single tick is bounded from D itself.
    """

    def __init__(self, stream: StridedRegimes, past: Matrix, future: Matrix) -> None:
        self._stream = stream
        self._ends = {False: past, True: future}
        self._known: dict[tuple[bool, bool, int], Matrix] = {}

    def worst(self, bit: int, published: float) -> float:
        """The largest loss of any tick: of the published ones, or of those between them if one exceeds it."""
        worst, stride = published, self._stream.stride
        runs = [(1, stride - 1)] if stride > 1 else []
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
        future = self._side(self._stream.stride - last, single, future=True)
        return self._stream.bit_bound(past + future, bit)

    def _side(self, steps: int, single: bool, *, future: bool) -> Matrix:
        """How much a side can vary between states, seen from `steps` ticks away, or from any more if not `single`."""
        key = (future, single, steps)
        if key not in self._known:
            end = self._ends[future]
            D = end if single else np.full_like(end, end.max())
            self._known[key] = self._stream.step_from(D, future=future, steps=steps)
        return self._known[key]


def _refined(step: TransportStep, tilt: Matrix, R: Matrix) -> Matrix:
    """A certified R, improved: what one step from R proves is certified too, since steps are monotone.

    Newton's method settles on one transport order for each pair; here every order is tried at every step.
    """
    pairs = pairs_of(len(R))
    for _ in range(_REFINEMENTS):
        D = tilt + R
        better = np.minimum(R, _square(step.least_bound(D, R[pairs])))
        if float((R - better).max()) < _WORTH_REFINING:
            return better
        R = better
    return R


def _chain(kernel: Matrix) -> Chain:
    return Chain((kernel / kernel.sum(axis=1, keepdims=True)).tolist())


def _square(over_pairs: Matrix) -> Matrix:
    """A vector over ordered pairs as a matrix with a zero diagonal."""
    size = round((1 + np.sqrt(1 + 4 * len(over_pairs))) / 2)
    found = np.zeros((size, size))
    found[pairs_of(size)] = over_pairs
    return found
