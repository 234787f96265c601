"""How well every m-th tick of a chain with regimes stands for all of its ticks. Standard library only."""

from __future__ import annotations

from functools import lru_cache

from hushmq.pufferfish.regimes.regime_chain import Matrix, RegimeChain, Vector, applied, power, times

_NEGLIGIBLE = 1e-15


@lru_cache(maxsize=4096)
def sampling_variance(chain: RegimeChain, stride: int) -> float:
    """The variance of the share of ones of every `stride`-th tick about that of all ticks, times all ticks.

    That of a long window: `stride` times the long-run variance of the thinned bits, less that of all bits.
    """
    if stride == 1:
        return 0.0
    thinned = stride * _long_run_variance(chain, power(chain.kernel, stride))
    return max(0.0, thinned - _long_run_variance(chain, chain.kernel))


def _long_run_variance(chain: RegimeChain, kernel: Matrix) -> float:
    """Σ over all lags of the covariance of the bits of two ticks."""
    law = chain.stationary
    bits = [state % 2 - chain.ones for state in range(len(law))]
    weighted = [share * bit for share, bit in zip(law, bits, strict=True)]
    return 2 * _inner(weighted, _summed(kernel, law, bits)) - _inner(weighted, bits)


def _summed(kernel: Matrix, law: Vector, start: Vector) -> Vector:
    """Σ_{h ≥ 0} kernel^h · start, whose mean under the stationary law is 0: twice as many terms at each step."""
    found, steps = list(start), kernel
    while True:
        more = applied(steps, found)
        mean = _inner(law, more)  # by rounding alone
        more = [one - mean for one in more]
        found = [a + b for a, b in zip(found, more, strict=True)]
        if max(map(abs, more)) <= _NEGLIGIBLE * max(map(abs, found)):
            return found
        steps = times(steps, steps)


def _inner(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
