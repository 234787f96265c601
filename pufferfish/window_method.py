"""By which theorem a window's noise is chosen: the largest tilt at every tick, for ever, that keeps ε.

Releases over tumbling windows, with all that is drawn from the same ticks, are one query that a tick changes by at
most its tilt τ. Each method gives a τ that keeps ε for every chain of Θ. For two states, Θ a box:

- `tilted-quilt`: τ = min(log M0, log M1), the closed form of docs/theory.md, Theorem 3. Exact for two states, so no
  other method allows more, and for either adversary.
- `mqm-exact`: τ = 1/scale of SWC's Algorithm 3 at the corner (q−, r−), for the prior adversary.
- `mqm-approx`: τ = 1/scale of SWC's Algorithm 4 for the least π and the least gap in Θ, for the prior adversary.

For more states, Θ an interval class, `tilted-quilt` is `contraction.largest_tilt` (docs/theory-k.md, Theorem 8) and
`mqm-exact` is `quilt_intervals.quilt_tilt`; `mqm-approx` needs an eigengap, which intervals do not certify.

Theorem (the corner decides). On q + r ≤ 1 the influence of a tick on any quilt falls in q and in r, so MQMExact of a
box is MQMExact of (q−, r−).
Proof. A stationary two-state chain is reversible, so both ends of a quilt contribute terms of one form,
max_z log P^h[x,z]/P^h[y,z] (SWC equation 5). With λ = 1−q−r ≥ 0, L = λ^h and S = 1 + λ + … + λ^{h−1}, the largest for
(x, y) = (0, 1) has z = 0, and its ratio is (1−qS)/(rS) = (1 + (q/r)·L)/(1−L). In r both q/r and L fall, and with them
the ratio. Its derivative by q is (S′/S² − 1)/r with S′ = Σ j·λ^{j−1}, and S′ ≤ S²: λ^k has the coefficient k+1 in S′
for k ≤ h−2, in S² for k ≤ h−1, and none is negative. For (1, 0) swap q and r. So every quilt has its largest
influence at (q−, r−), and the score of the best one is largest there. ∎

Beyond q + r = 1 this is not so, and `mqm-exact` is refused there. Whatever the method, the ledger prices what was
released exactly (pufferfish/binary/binary_timeline.py): a method decides how much noise is added, never what is
charged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

from hushmq.pufferfish.binary.stream_loss import Adversary, Box, limits
from hushmq.pufferfish.categorical.contraction import largest_tilt
from hushmq.pufferfish.categorical.interval_quilt import quilt_tilt
from hushmq.pufferfish.categorical.transition_intervals import Class

Method = Literal["least-noise", "tilted-quilt", "mqm-exact", "mqm-approx"]
"""`least-noise` is whichever of the others is valid and allows most: for two states always `tilted-quilt`.

A stream's Θ decides, never its data, and Θ was learned from charged statistics.
"""
METHODS: tuple[Method, ...] = get_args(Method)


def why_not(method: Method, adversary: Adversary, theta: Box | Class | None = None) -> str | None:
    """Why the method does not hold for this adversary, or for this Θ; None if it does."""
    if method in {"least-noise", "tilted-quilt"}:
        return None
    if adversary != "prior":
        return f"{method} holds for the prior adversary only, not for the {adversary} one: use tilted-quilt"
    if isinstance(theta, Class):
        return (
            "mqm-approx needs an eigengap, which intervals do not certify: use mqm-exact or tilted-quilt"
            if method == "mqm-approx"
            else None
        )
    if method == "mqm-exact" and theta is not None and theta.q_high + theta.r_high > 1:
        return "mqm-exact is not certified where q + r may exceed 1: use tilted-quilt, or mqm-approx"
    return None


@lru_cache(maxsize=8192)
def window_limit(method: Method, theta: Box | Class, epsilon: float, adversary: Adversary) -> float:
    """The largest tilt on the true state of every tick that the method allows; ValueError where it does not hold."""
    reason = why_not(method, adversary, theta)
    if reason is not None:
        raise ValueError(reason)
    if isinstance(theta, Class):
        return _of_class(method, theta, epsilon)
    if method == "mqm-exact":
        return _mqm_exact(theta, epsilon)
    if method == "mqm-approx":
        return _mqm_approx(theta, epsilon)
    return min(limits(theta, epsilon, adversary))


def _of_class(method: Method, theta: Class, epsilon: float) -> float:
    if method == "mqm-exact":
        return quilt_tilt(theta, epsilon)
    try:
        tilted = largest_tilt(theta, epsilon).tau
    except ValueError:
        tilted = 0.0  # looks ahead reach no further than quilts do, nor always as far
    return max(tilted, quilt_tilt(theta, epsilon)) if method == "least-noise" else tilted


def _mqm_exact(theta: Box, epsilon: float) -> float:
    from hushmq.pufferfish.quilt import markov_quilt as mqm  # noqa: PLC0415  # numpy: not where this method is not asked for
    from hushmq.pufferfish.quilt.markov_chain import Chain  # noqa: PLC0415  # as above

    q, r = theta.q_low, theta.r_low
    return 1 / mqm.exact([Chain([[1 - q, q], [r, 1 - r]])], None, epsilon).scale


def _mqm_approx(theta: Box, epsilon: float) -> float:
    """π_min is least at one of two corners; the reversible gap 2·(1−|1−q−r|) at one of the other two."""
    from hushmq.pufferfish.quilt import markov_quilt as mqm  # noqa: PLC0415  # as above

    pi_min = min(
        theta.q_low / (theta.q_low + theta.r_high),
        theta.r_low / (theta.r_low + theta.q_high),
    )
    gap = 2 * min(1 - abs(1 - theta.q_low - theta.r_low), 1 - abs(1 - theta.q_high - theta.r_high))
    return 1 / mqm.approx(mqm.Mixing(pi_min * DOWN, gap * DOWN), None, epsilon).scale


DOWN = 1 - 2.0**-48
"""More than the few roundings of a corner can add."""
