"""Bounds on Bayesian DP from ordinary DP (Lange et al., *Balancing Privacy and Utility in Correlated Data*, 2025).

A mechanism that is ε'-DP for one record loses at most ε' + 4·ln γ to an adversary who knows any other records of a
Markov chain, where γ is the ratio of the largest to the least transition probability; and at most n·ε' whatever
correlates n records. The first has a floor that no noise lowers.
"""

from __future__ import annotations

import math

from hushmq.pufferfish.quilt.laplace_scale import require_epsilon
from hushmq.pufferfish.quilt.markov_chain import Chain


def correlation_cost(chain: Chain) -> float:
    """4·ln γ: what correlation costs, with any noise; infinite where a transition is impossible."""
    least = float(chain.transition.min())
    return 4 * math.log(float(chain.transition.max()) / least) if least > 0 else math.inf


def loss(chain: Chain, tau: float, length: int | None = None) -> float:
    """The lesser of both bounds for outputs that cost τ each; without a length the stream is endless."""
    grouped = math.inf if length is None else length * tau
    return min(grouped, tau + correlation_cost(chain))


def largest_tilt(chain: Chain, epsilon: float, length: int | None = None) -> float:
    """The largest cost of one output within ε; 0 where the bounds allow none."""
    require_epsilon(epsilon)
    return max(0.0, epsilon - correlation_cost(chain), 0.0 if length is None else epsilon / length)
