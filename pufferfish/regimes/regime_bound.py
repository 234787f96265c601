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

import numpy as np

from hushmq.pufferfish.quilt.endless_quilt import certified_sides, side_solvers
from hushmq.pufferfish.quilt.markov_chain import Matrix
from hushmq.pufferfish.quilt.transport_step import TransportStep, pairs_of
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_steps import Between, RegimeSteps, as_square, numeric_chain

_REFINEMENTS, _WORTH_REFINING = 60, 1e-7


class StridedRegimes:
    """A chain with regimes of which every `stride`-th tick is published."""

    def __init__(self, chain: RegimeChain, stride: int = 1) -> None:
        self._steps, self._stride = RegimeSteps(chain), stride
        published = np.linalg.matrix_power(self._steps.kernels[1], stride)
        self._sides = side_solvers(numeric_chain(published))

    def directed_losses(self, tau0: float, tau1: float) -> tuple[float, float]:
        """A certified loss of an endless stream with these tilts towards either bit, worst over all ticks."""
        tilt = self._steps.tilt_matrix(tau0, tau1)
        past, future = (
            _refined(solver.step, tilt, as_square(side.R))
            for solver, side in zip(self._sides, certified_sides(self._sides, tilt), strict=True)
        )
        between = Between(self._steps, past + tilt, future + tilt, self._stride)
        zero, one = (
            between.worst(bit, tau + self._steps.bit_bound(past + future, bit))
            for bit, tau in ((0, tau0), (1, tau1))
        )
        return zero, one


def _refined(step: TransportStep, tilt: Matrix, R: Matrix) -> Matrix:
    """A certified R, improved: what one step from R proves is certified too, since steps are monotone.

    Newton's method settles on one transport order for each pair; here every order is tried at every step.
    """
    pairs = pairs_of(len(R))
    for _ in range(_REFINEMENTS):
        D = tilt + R
        better = np.minimum(R, as_square(step.least_bound(D, R[pairs])))
        if float((R - better).max()) < _WORTH_REFINING:
            return better
        R = better
    return R
