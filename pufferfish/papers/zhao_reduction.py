"""Zhao, Zhang and Poor's reduction: Bayesian DP on a chain from ordinary DP with a smaller budget (CGSSY section 4.2).

The 2t−1 instants within distance t of the secret cost the DP budget each; all other instants together cost 6·D_t, where
D_t is the largest log-ratio between the rows of P^t.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from hushmq.pufferfish.quilt.laplace_scale import require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.quilt_influence import PowerRatios
from hushmq.pufferfish.quilt.quilt_search import LARGEST_POWER


@dataclass(frozen=True, slots=True)
class Reduction:
    """A sufficient DP budget ε', and the distance t that attains it."""

    epsilon: float
    distance: int


def reduction(chain: Chain, epsilon: float, length: int | None = None) -> Reduction:
    """The largest ε' = (ε − 6·D_t)/(2t−1) over the distances 1 ≤ t ≤ length/2 (CGSSY Proposition 1).

    ε'-DP implies ε-BDP for every set of known states. D_t is non-increasing, so t1 ≤ t ≤ t2 gives at most
    (ε − 6·D_t2)/(2t1−1): best-first branch and bound over intervals of t.
    """
    require_epsilon(epsilon)
    require_length(length)
    if chain.initial is not None:
        raise ValueError("initial is given; the reduction is for stationary chains, leave it out")
    ends = PowerRatios(chain)

    def remaining_budget(t: int) -> float:
        return epsilon - 6 * float(ends.right(t).max())

    last = LARGEST_POWER if length is None else max(1, length // 2)
    t = 1
    while t < last and remaining_budget(t) <= 0:
        t = min(2 * t, last)
    best = Reduction(remaining_budget(t) / (2 * t - 1), t)
    if not best.epsilon > 0:
        raise ValueError(
            f"epsilon {epsilon:g} is used up at every distance up to {last}; give a larger epsilon or a longer stream"
        )
    # ε' ≤ ε/(2t−1) bounds the useful distances.
    intervals = [(-math.inf, 1, min(last, math.ceil((epsilon / best.epsilon + 1) / 2)))]
    while intervals and -intervals[0][0] > best.epsilon:
        _, first, last = heapq.heappop(intervals)
        middle = (first + last) // 2
        for low, high in ((first, middle), (middle + 1, last)):
            if low > high:
                continue
            reached = remaining_budget(high) / (2 * high - 1)
            if reached > best.epsilon:
                best = Reduction(reached, high)
            if low < high:
                heapq.heappush(intervals, (-remaining_budget(high) / (2 * low - 1), low, high))
    return best


def noise(chain: Chain, epsilon: float, length: int | None = None) -> float:
    """The flip probability of a binary stream, 1/(1+e^ε') (CGSSY equation 5).

    For t=1 and a symmetric chain this is (1−θ)⁶/(θ⁶·e^ε+(1−θ)⁶): CGSSY's equation 6 without its stray factor 2.
    """
    if chain.k != 2:
        raise ValueError(f"the chain has {chain.k} states; flipping bits needs 2")
    return 1 / (1 + math.exp(reduction(chain, epsilon, length).epsilon))
