"""The window methods for two states, with a Θ of intervals of q and r.

- `tilted-quilt`, `least-noise`: the largest tilt whose loss is within ε. For a single chain with q + r ≤ 1 it is exact
  for both adversaries (docs/theory.md, Theorem 3).
- `mqm-exact`: τ = 1/scale of SWC's Algorithm 3 at the corner (q−, r−), for the prior adversary.
- `mqm-approx`: τ = 1/scale of SWC's Algorithm 4 for the least π and the least gap in Θ, for the prior adversary.

The last two are about stationary chains. Under a Θ of several the kernel may change (docs/theory-world.md, Theorem 16),
so neither allows more than the first.

Theorem (worst corner). On q + r ≤ 1 the influence of a tick on any quilt falls in q and in r, so MQMExact of Θ is
MQMExact of (q−, r−).
Proof. A stationary two-state chain is reversible, so both ends of a quilt contribute terms of one form,
max_z log P^h[x,z]/P^h[y,z] (SWC equation 5). With λ = 1−q−r ≥ 0, L = λ^h and S = 1 + λ + … + λ^{h−1}, the largest for
(x, y) = (0, 1) has z = 0, and its ratio is (1−qS)/(rS) = (1 + (q/r)·L)/(1−L). In r both q/r and L fall, and with them
the ratio. Its derivative by q is (S′/S² − 1)/r with S′ = Σ j·λ^{j−1}, and S′ ≤ S²: λ^k has the coefficient k+1 in S′
for k ≤ h−2, in S² for k ≤ h−1, and none is negative. For (1, 0) swap q and r. So every quilt has its largest
influence at (q−, r−), and the score of the best one is largest there. ∎

For q + r > 1 the theorem is false, and `mqm-exact` is refused.
"""

from __future__ import annotations

from functools import lru_cache

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_spread import odds_spread
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts
from hushmq.pufferfish.undecided import left_inside
from hushmq.pufferfish.window_method import Method, adversary_error


def method_error(theta: BinaryTheta, method: Method, adversary: Adversary) -> str | None:
    """Why the method does not hold under Θ against the adversary; None if it does."""
    if method == "mqm-exact" and adversary != "informed" and theta.q_high + theta.r_high > 1:
        return "mqm-exact is not certified where q + r may exceed 1: use tilted-quilt, or mqm-approx"
    return adversary_error(method, adversary)


@lru_cache(maxsize=8192)
def window_limit(theta: BinaryTheta, method: Method, epsilon: float, adversary: Adversary) -> float:
    """The largest tilt on the true state of every tick that the method allows; ValueError where it does not hold."""
    reason = method_error(theta, method, adversary)
    if reason is not None:
        raise ValueError(reason)
    largest = min(largest_tilts(theta, epsilon, adversary))
    if method in {"least-noise", "tilted-quilt"}:
        return largest
    if adversary == "undecided":
        epsilon = left_inside(epsilon, odds_spread(theta))
    if not epsilon:
        return 0.0
    return min(largest, _mqm_exact(theta, epsilon) if method == "mqm-exact" else _mqm_approx(theta, epsilon))


def _mqm_exact(theta: BinaryTheta, epsilon: float) -> float:
    from hushmq.pufferfish.quilt import markov_quilt as mqm  # noqa: PLC0415  # numpy: not where this method is not asked for
    from hushmq.pufferfish.quilt.markov_chain import Chain  # noqa: PLC0415  # as above

    q, r = theta.q_low, theta.r_low
    return 1 / mqm.exact([Chain([[1 - q, q], [r, 1 - r]])], None, epsilon).scale


def _mqm_approx(theta: BinaryTheta, epsilon: float) -> float:
    """π_min is least at one of two corners; the reversible gap 2·(1−|1−q−r|) at one of the other two."""
    from hushmq.pufferfish.quilt import markov_quilt as mqm  # noqa: PLC0415  # as above

    pi_min = min(
        theta.q_low / (theta.q_low + theta.r_high),
        theta.r_low / (theta.r_low + theta.q_high),
    )
    gap = 2 * min(1 - abs(1 - theta.q_low - theta.r_low), 1 - abs(1 - theta.q_high - theta.r_high))
    return 1 / mqm.approx(mqm.Mixing(pi_min * DOWN, gap * DOWN), None, epsilon).scale


DOWN = 1 - 2.0**-48
"""Exceeds the relative rounding error of a corner."""
