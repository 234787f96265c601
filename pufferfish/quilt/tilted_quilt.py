"""The tilted quilt mechanism for streams of any length and initial law.

`tilted_quilt_scale` takes the arguments of `mqm.exact` and never returns a larger scale; `loss` prices a tilt. Both are
for the *prior* adversary, who knows one of the chains and no other state (SWC Definition 2.1; docs/theory-k.md,
Theorems 4 and 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hushmq.pufferfish.false_position import largest_within
from hushmq.pufferfish.quilt import endless_quilt as endless
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.endless_quilt import uniform_tilt
from hushmq.pufferfish.quilt.finite_side import LONG_FACTOR, StationarySide, WorstInstant, worst_instant
from hushmq.pufferfish.quilt.laplace_scale import LaplaceScale, Quilt, require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.nonstationary_past import NonstationaryPast

ENDLESS = 2**62
"""A length that stands for an endless stream."""

MAX_STATES_FINITE = 24
"""The largest number of states for which finite streams are priced instant by instant; beyond, it takes minutes."""

PRECISION = 1e-9
"""The relative error of a scale found by search; the returned scale is the larger end."""


def tilted_quilt_scale(chains: Iterable[Chain], length: int | None, epsilon: float) -> LaplaceScale:
    """The Laplace scale of a 1-Lipschitz query: the largest that any of the chains requires.

    `length=None` is an endless stream; a chain without an initial law is stationary.
    """
    require_epsilon(epsilon)
    require_length(length)
    needs = [_need(chain, length, epsilon) for chain in chains]
    if not needs:
        raise ValueError("chains is empty; give at least one chain")
    scale, quilt = max(needs, key=lambda need: need[0])
    return LaplaceScale("tilted-quilt", scale, quilt)


def loss(chains: Iterable[Chain], length: int | None, tau: float) -> float:
    """The certified loss of a tilt τ at every instant: the largest over the chains."""
    require_length(length)
    if not (math.isfinite(tau) and tau >= 0):
        raise ValueError(f"tau is {tau:g}; a tilt is a finite number of nats, at least 0")
    losses = [_loss(chain, length, tau) for chain in chains]
    if not losses:
        raise ValueError("chains is empty; give at least one chain")
    return max(losses)


def _loss(chain: Chain, length: int | None, tau: float) -> float:
    if tau == 0:
        return 0.0
    if length is None and chain.initial is None:
        return endless.certify_tilt(endless.side_solvers(chain), tau * uniform_tilt(chain.k)).loss
    return FiniteStream(chain, length).worst_instant(tau).loss


def _need(chain: Chain, length: int | None, epsilon: float) -> tuple[float, Quilt]:
    """The least scale that any of the bounds certifies for this chain, and its quilt."""
    needs: list[tuple[float, Quilt]] = []
    if length is not None:
        # Near an end, or for a chain that does not mix, plain quilts may be better or the only bound.
        plain = mqm.exact([chain], length, epsilon)
        needs.append((plain.scale, plain.quilt))
    enough = False
    if chain.initial is None and (length is None or chain.period() == 1):
        bound = endless.largest_tilt(endless.side_solvers(chain), uniform_tilt(chain.k), epsilon)
        tau = float(bound.tilt.max())
        needs.append((math.nextafter(1 / tau, math.inf), bound.quilt))
        enough = length is None or length > LONG_FACTOR * (
            2 + (bound.left.R.max() + bound.right.R.max()) / tau
        )
    if not enough and (chain.k <= MAX_STATES_FINITE or length is None):
        needs.append(_searched(chain, length, epsilon))
    return min(needs, key=lambda need: need[0])


def _searched(chain: Chain, length: int | None, epsilon: float) -> tuple[float, Quilt]:
    stream = FiniteStream(chain, length)
    tau = largest_within(lambda tau: stream.worst_instant(tau).loss, epsilon, epsilon, PRECISION)
    instant = stream.worst_instant(tau).instant
    ends = (instant == 0, length is not None and instant == length - 1)
    left, right = (None if end else 1 for end in ends)
    return math.nextafter(1 / tau, math.inf), (left, right)


class FiniteStream:
    """A stream of finite length or with a given initial law; certificates are cached per tilt."""

    def __init__(self, chain: Chain, length: int | None) -> None:
        """The past follows the reversed chain unless the initial law is given."""
        self._shape = uniform_tilt(chain.k)
        self._length = length
        self._future = StationarySide(chain, self._shape)
        self._past = (
            StationarySide(chain.reversal(), self._shape)
            if chain.initial is None
            else NonstationaryPast(chain, self._shape)
        )

    def worst_instant(self, tau: float) -> WorstInstant:
        """The largest loss of any instant, and that instant, if every instant has tilt τ."""
        past, future = self._past.bounds(tau, self._length), self._future.bounds(tau, self._length)
        return worst_instant(tau * self._shape, self._length or ENDLESS, past, future)
