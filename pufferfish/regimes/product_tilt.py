"""The loss of the product tilt on a chain with regimes: exact where the chain is MTP2, otherwise a lower limit.

Let every published tick tilt its bit by τ, and let ℓ be the likelihood of the transcript as a function of the bits.
Write ℓ(x) = h(x)·Π e^{τ·[x_t = 0]}: h does not fall in any bit. Under the law tilted by the product, which is MTP2 if
the chain is, the bits given X_i increase stochastically with X_i; so E[h | X_i=0] ≤ E[h | X_i=1], and h ≡ 1 is the
worst case (docs/theory-regimes.md, Theorem R1). Independent noise attains it, on any chain: all outputs the same.

Published are every m-th tick; the secret may be the bit at any tick.
"""

from __future__ import annotations

import math

from hushmq.pufferfish.regimes.regime_chain import Matrix, RegimeChain, Vector, applied, power, times

ROUNDING = 1e-11
"""Relative, and absolute in nats: exceeds the rounding errors of the eigenvectors and of the sums below."""

_DOUBLINGS = 64
"""2^64 steps: an endless stream, however slow its regimes."""

_PER_STEP = 2.0**-50
"""Nats: exceeds what the rounding of one step adds; a chain that remembers for long adds up that of many."""

_CONVERGED = 4e-16
"""When one more doubling changes a weight by no more than this, relatively, further ones change nothing."""


def product_loss(chain: RegimeChain, tau0: float, tau1: float, stride: int = 1) -> float:
    """The loss of an endless stream whose every `stride`-th tick is tilted, worst over ticks and directions."""
    return max(directed_loss(chain, bit, tau, stride) for bit, tau in ((0, tau0), (1, tau1)))


def directed_loss(chain: RegimeChain, bit: int, tau: float, stride: int = 1) -> float:
    """The same towards one bit. In an MTP2 chain it does not depend on the tilt towards the other."""
    found = TiltedStream(chain, bit, tau, stride)
    return max([found.published_loss(), *map(found.loss_between, range(1, stride))])


class TiltedStream:
    """An endless stream tilted towards one bit: the weight of its future and of its past, by state."""

    def __init__(self, chain: RegimeChain, bit: int, tau: float, stride: int) -> None:
        self._chain, self._bit, self._tau, self._stride = chain, bit, tau, stride
        weights = [math.exp(tau) if state % 2 == bit else 1.0 for state in range(2 * chain.regimes)]
        self._future, ahead = endless(power(chain.kernel, stride), weights)
        self._past, behind = endless(power(chain.reversal, stride), weights)
        self._rounding = ROUNDING + _PER_STEP * (ahead + behind)
        # At distance 0 from a published tick, its own tilt included.
        self._ahead = [_tilted(self._future, weights)]
        self._behind = [_tilted(self._past, weights)]

    def published_loss(self) -> float:
        """The loss at a published tick."""
        return self._rounded(self._tau + log_odds(self._chain, self._bit, self._future, self._past))

    def loss_between(self, distance: int) -> float:
        """The loss at an unpublished tick, this many ticks after a published one."""
        while len(self._ahead) < self._stride:
            self._ahead.append(applied(self._chain.kernel, self._ahead[-1]))
            self._behind.append(applied(self._chain.reversal, self._behind[-1]))
        future, past = self._ahead[self._stride - distance], self._behind[distance]
        return self._rounded(log_odds(self._chain, self._bit, future, past))

    def _rounded(self, loss: float) -> float:
        return max(0.0, loss) * (1 + ROUNDING) + self._rounding


def endless(kernel: Matrix, weights: Vector) -> tuple[Vector, int]:
    """The fixed point of f ← P(m∘f), up to a factor, by state, and after how many steps it was reached."""
    step = [[part * weight for part, weight in zip(row, weights, strict=True)] for row in kernel]
    before: Vector = []
    for doublings in range(_DOUBLINGS):
        largest = max(map(max, step))
        step = [[part / largest for part in row] for row in step]
        sums = [math.fsum(row) for row in step]
        now = [one / max(sums) for one in sums]
        if (
            before
            and max(abs(one - other) / one for one, other in zip(now, before, strict=True)) < _CONVERGED
        ):
            return now, 1 << doublings
        before, step = now, times(step, step)
    return before, 1 << _DOUBLINGS


def log_odds(chain: RegimeChain, bit: int, future: Vector, past: Vector) -> float:
    """By how much the tilted future and past move the log-odds of the bit."""
    weighted = [
        [law * ahead * behind for law, ahead, behind in zip(chain.stationary, future, past, strict=True)][
            side::2
        ]
        for side in range(2)
    ]
    before = [math.fsum(chain.stationary[side::2]) for side in range(2)]
    this, other = (math.fsum(weighted[side]) / before[side] for side in (bit, 1 - bit))
    return math.log(this / other)


def _tilted(weight: Vector, weights: Vector) -> Vector:
    return [one * other for one, other in zip(weight, weights, strict=True)]
