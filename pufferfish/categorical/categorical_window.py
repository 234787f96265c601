"""The window methods for k states, with a Θ of entrywise intervals.

- `tilted-quilt`: the largest tilt with a certificate (docs/theory-k.md, Theorem 8).
- `mqm-exact`: pufferfish/categorical/interval_quilt.py.
- `least-noise`: the larger of the two; against the informed adversary `tilted-quilt`, for quilts do not hold there.
- `mqm-approx` needs an eigengap, which entrywise intervals do not bound.

For the undecided adversary, Θ asks for what its odds spread leaves of ε. A timeline prices releases by the tilted
quilt, whose loss may exceed that of a quilt, so a window uses the smaller of the tilts that the method and the tilted
quilt allow.
"""

from __future__ import annotations

from functools import lru_cache

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import largest_tilt, largest_tilt_within
from hushmq.pufferfish.categorical.interval_quilt import quilt_tilt
from hushmq.pufferfish.window_method import Method, adversary_error


def method_error(method: Method, adversary: Adversary) -> str | None:
    """Why the method does not hold against the adversary; None if it does."""
    if method == "mqm-approx" and adversary != "informed":
        return "mqm-approx needs an eigengap, which intervals do not certify: use mqm-exact or tilted-quilt"
    return adversary_error(method, adversary)


@lru_cache(maxsize=8192)
def window_limit(theta: CategoricalTheta, method: Method, epsilon: float, adversary: Adversary) -> float:
    """The largest tilt on the true state of every tick that the method allows; ValueError where it does not hold."""
    reason = method_error(method, adversary)
    if reason is not None:
        raise ValueError(reason)
    if method == "mqm-exact":
        return quilt_tilt(theta, epsilon)
    informed = adversary == "informed"
    try:
        tilted = largest_tilt(theta, epsilon, informed=informed).tau
    except ValueError:
        tilted = 0.0  # quilts at larger distances may still give a bound
    if method == "least-noise" and not informed:
        return max(tilted, quilt_tilt(theta, epsilon))
    return tilted


@lru_cache(maxsize=8192)
def window_tilt(theta: CategoricalTheta, method: Method, epsilon: float, adversary: Adversary) -> float:
    """The largest tilt that the method allows and a timeline prices within ε; 0 if there is none.

    ValueError where the method does not hold.
    """
    reason = method_error(method, adversary)
    if reason is not None:
        raise ValueError(reason)
    proved = largest_tilt_within(theta, epsilon, informed=adversary == "informed")
    return min(proved, window_limit(theta, method, epsilon, adversary)) if method == "mqm-exact" else proved
