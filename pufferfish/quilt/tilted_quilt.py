"""The tilted quilt: the least Laplace noise it can prove private, for streams of any length and start.

`tilted` takes what `mqm.exact` takes and is never above it; `loss` prices a tilt. Both speak of the *prior* adversary,
who believes in one of the chains and knows no other state (SWC Definition 2.1, docs/theory-k.md, Theorems 4 and 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hushmq.pufferfish.quilt import endless_quilt as endless
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.endless_quilt import even
from hushmq.pufferfish.quilt.false_position import largest_within
from hushmq.pufferfish.quilt.finite_side import LONG, Walk, Worst, worst
from hushmq.pufferfish.quilt.laplace_scale import Quilt, Scale, require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.nonstationary_past import Past

ENDLESS = 2**62
"""A length no stream reaches."""

WALKED = 24
"""Short streams, and those with a given start, are walked up to this many states; it would take minutes beyond."""

PRECISION = 1e-9
"""The relative error of a scale that had to be searched for, on the safe side."""


def tilted(chains: Iterable[Chain], length: int | None, epsilon: float) -> Scale:
    """The scale for a 1-Lipschitz query: the largest that one of the chains needs.

    `length=None` is a stream without end; a chain without a given start is stationary.
    """
    require_epsilon(epsilon)
    require_length(length)
    needs = [_need(chain, length, epsilon) for chain in chains]
    if not needs:
        raise ValueError("chains is empty; give at least one chain")
    scale, quilt = max(needs, key=lambda need: need[0])
    return Scale("tilted-quilt", scale, quilt)


def loss(chains: Iterable[Chain], length: int | None, tau: float) -> float:
    """The certified loss of publishing with tilt τ at every instant: the largest over the chains."""
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
        return endless.bounded_loss(endless.sides_of(chain), tau * even(chain.k)).loss
    return Finite(chain, length).worst(tau).loss


def _need(chain: Chain, length: int | None, epsilon: float) -> tuple[float, Quilt]:
    """The least noise that one of the ways can prove enough for this chain."""
    needs: list[tuple[float, Quilt]] = []
    if length is not None:
        # Where an end is near, or a chain never forgets, plain quilts may be better, or all there is.
        plain = mqm.exact([chain], length, epsilon)
        needs.append((plain.scale, plain.quilt))
    enough = False
    if chain.initial is None and (length is None or chain.period() == 1):
        bound = endless.largest_tilt(endless.sides_of(chain), even(chain.k), epsilon)
        tau = float(bound.tilt.max())
        needs.append((math.nextafter(1 / tau, math.inf), bound.quilt))
        enough = length is None or length > LONG * (2 + (bound.left.R.max() + bound.right.R.max()) / tau)
    if not enough and (chain.k <= WALKED or length is None):
        needs.append(_searched(chain, length, epsilon))
    return min(needs, key=lambda need: need[0])


def _searched(chain: Chain, length: int | None, epsilon: float) -> tuple[float, Quilt]:
    stream = Finite(chain, length)
    tau = largest_within(lambda tau: stream.worst(tau).loss, epsilon, epsilon, PRECISION)
    instant = stream.worst(tau).instant
    ends = (instant == 0, length is not None and instant == length - 1)
    left, right = (None if end else 1 for end in ends)
    return math.nextafter(1 / tau, math.inf), (left, right)


class Finite:
    """A stream that ends, or whose start is given; what has been computed for one tilt is remembered."""

    def __init__(self, chain: Chain, length: int | None) -> None:
        """The past is that of the reversed chain, unless the start is given."""
        self._shape = even(chain.k)
        self._length = length
        self._future = Walk(chain, self._shape)
        self._past = (
            Walk(chain.reversal(), self._shape) if chain.initial is None else Past(chain, self._shape)
        )

    def worst(self, tau: float) -> Worst:
        """The largest loss of any instant, and the instant, if every instant has tilt τ."""
        past, future = self._past.along(tau, self._length), self._future.along(tau, self._length)
        return worst(tau * self._shape, self._length or ENDLESS, past, future)
