"""The loss of a two-state stream with constant tilts, and the noise with a given loss, for every adversary.

A chain over {0, 1} has q = P(0→1) and r = P(1→0); λ = 1 − q − r is its correlation. The output at one tick changes the
likelihood by at most a factor m0 = e^τ0 towards state 0 and m1 = e^τ1 towards state 1. Every result is certified: a
loss is an upper bound on the supremum, and tilts or noise returned for an ε have a loss of at most ε. Rounding errors
are added on the safe side.

Standard library only, so that a device can verify a setting. The theorems are in docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from hushmq.pufferfish.adversary import Adversary, check_adversary, check_tilts
from hushmq.pufferfish.binary import alternating
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_spread import odds_spread
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.changing_chain import changing_chains, endless_loss, splits_by_state
from hushmq.pufferfish.binary.known_instant import known_state_log_ratio, most_informative_instant
from hushmq.pufferfish.mobius.ratio_orbit import LARGEST_TILT, UNIT_ROUNDOFF, orbit_of
from hushmq.pufferfish.undecided import left_inside, spread_error, with_spread

# Exceeds the relative error of a few dozen rounded operations.
_SLACK = 2.0**-46


def loss(theta: BinaryTheta, *, tau0: float, tau1: float, adversary: Adversary = "informed") -> float:
    """The loss of an endless stream with the same tilts at every tick, for the worst chain in Θ.

    docs/theory.md: Theorem 2 (prior) and Theorem 4 (informed), for a single chain. Under a Θ of several chains every
    step may have the kernel of another one: docs/theory-world.md, Theorems 16 and 17; Theorem 26
    is about the undecided adversary.
    """
    check_tilts(tau0, tau1)
    check_adversary(adversary)
    if tau0 == tau1 == 0.0:
        return 0.0
    if adversary == "undecided":
        return with_spread(loss(theta, tau0=tau0, tau1=tau1, adversary="prior"), odds_spread(theta))
    if theta.single:
        return rounded_up(max(_losses(theta.q_low, theta.r_low, tau0, tau1, adversary)))
    if splits_by_state(theta):
        return rounded_up(
            max(endless_loss(theta, state, adversary, tau) for state, tau in enumerate((tau0, tau1)))
        )
    (chain,) = changing_chains(theta, adversary, (tau0, tau1))
    return rounded_up(chain.endless_loss(max(tau0, tau1)))


def largest_tilts(
    theta: BinaryTheta, epsilon: float, adversary: Adversary = "informed"
) -> tuple[float, float]:
    """The largest tilts (τ0, τ1) = (log M0, log M1) with a loss of at most ε for every chain in Θ.

    For q+r ≤ 1 the two are independent: a pair (τ0, τ1) has a loss of at most ε if and only if both are at most these.
    For a single chain with q+r > 1 each direction depends on both tilts, and this is the pair with the most informative
    noise (docs/theory.md, Theorem 3); for several chains, some of them with q+r > 1, the two are equal.
    """
    tau0, tau1 = _unrounded_largest_tilts(theta, epsilon, adversary)
    shrink = 2.0 * UNIT_ROUNDOFF
    while loss(theta, tau0=tau0, tau1=tau1, adversary=adversary) > epsilon:
        tau0, tau1 = tau0 * max(0.0, 1.0 - shrink), tau1 * max(0.0, 1.0 - shrink)
        shrink *= 4.0
    return tau0, tau1


@lru_cache(maxsize=65_536)
def constant_loss(theta: BinaryTheta, tau0: float, tau1: float, adversary: Adversary) -> float:
    """As `loss`, memoised: the same few settings are priced repeatedly."""
    return loss(theta, tau0=tau0, tau1=tau1, adversary=adversary)


@lru_cache(maxsize=256)
def cached_largest_tilts(theta: BinaryTheta, epsilon: float, adversary: Adversary) -> tuple[float, float]:
    """As `largest_tilts`, memoised: Θ changes rarely and windows close often."""
    return largest_tilts(theta, epsilon, adversary)


def optimal_noise(
    theta: BinaryTheta,
    epsilon: float,
    adversary: Adversary = "informed",
    weights: tuple[float, float] | None = None,
) -> BinaryNoise:
    """The noise with a loss of at most ε that minimises w0·ρ0 + w1·ρ1; ValueError if no informative noise has.

    Without weights both count alike, which maximises 1−ρ0−ρ1. With the stationary distribution as weights the
    objective is the expected share of flipped bits (CGSSY Corollary 1). The feasible set is 1−ρ0 ≤ M0·ρ1,
    1−ρ1 ≤ M1·ρ0, so the minimum is at the crossing of the two lines or at the point of one of them with ρ = 1/2.
    """
    tau0, tau1 = _unrounded_largest_tilts(theta, epsilon, adversary)
    if adversary == "undecided" and (reason := spread_error(theta, epsilon)) is not None:
        raise ValueError(reason)
    if not (tau0 > 0.0 and tau1 > 0.0):
        raise ValueError(f"epsilon is {epsilon!r}; no informative noise has so small a loss for this Θ")
    best = _noise_at_crossing(tau0, tau1)
    if weights is not None:
        if not (min(weights) >= 0.0 and 0.0 < sum(weights) < math.inf):
            raise ValueError(f"weights are {weights!r}; they must be two non-negative numbers, not both 0")
        candidates = [best]
        if best[0] < 0.5:
            candidates.append((0.5, 0.5 * math.exp(-tau0)))
        if best[1] < 0.5:
            candidates.append((0.5 * math.exp(-tau1), 0.5))
        best = min(candidates, key=lambda rho: weights[0] * rho[0] + weights[1] * rho[1])
    # Larger ρ is more noise. The loss falls at least as fast as the tilts, by more than the relative rise of ρ, so
    # few iterations compensate the rounding errors.
    rise = 0.0
    while True:
        noise = BinaryNoise(best[0] * (1.0 + rise), best[1] * (1.0 + rise))
        if loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=adversary) <= epsilon:
            return noise
        rise = 4.0 * rise + _SLACK


def rounded_up(value: float) -> float:
    """The value plus an upper bound on the rounding errors of a few dozen operations."""
    return value + _SLACK * (1.0 + value)


def endless_side_log_ratio(q: float, r: float, tau: float, adversary: Adversary) -> float:
    """One side's largest log-ratio favouring 0 on an endless stream, q+r < 1.

    Prior: log C∞. Informed: the largest V(l, y) over known states, which is at least log C∞.
    """
    if tau == 0.0:
        return 0.0
    tilted = orbit_of(q, r, tau)
    ignorant = math.log(tilted.fixed_point)
    if adversary == "prior":
        return ignorant
    base = orbit_of(q, r, 0.0)
    return max(ignorant, known_state_log_ratio(tilted, base, *most_informative_instant(tilted, base)))


def _losses(q: float, r: float, tau0: float, tau1: float, adversary: Adversary) -> tuple[float, float]:
    """The losses towards 0 and towards 1 on an endless stream: τ + 2·(log-ratio of one side)."""
    if q + r < 1.0:
        side0, side1 = (
            endless_side_log_ratio(q, r, tau0, adversary),
            endless_side_log_ratio(r, q, tau1, adversary),
        )
    else:
        side0 = math.log(alternating.endless_ratio(q, r, tau0, tau1))
        side1 = math.log(alternating.endless_ratio(r, q, tau1, tau0))
        if adversary == "informed":
            side0 = alternating.largest_known_log_ratio(
                q, r, alternating.endless_gains(tau0, tau1), floor=side0
            )
            side1 = alternating.largest_known_log_ratio(
                r, q, alternating.endless_gains(tau1, tau0), floor=side1
            )
    return tau0 + 2.0 * side0, tau1 + 2.0 * side1


def _unrounded_largest_tilts(theta: BinaryTheta, epsilon: float, adversary: Adversary) -> tuple[float, float]:
    """The largest tilts up to rounding."""
    if not (0.0 < epsilon <= LARGEST_TILT):
        raise ValueError(f"epsilon is {epsilon!r}; it must be positive and at most {LARGEST_TILT:g}")
    check_adversary(adversary)
    if adversary == "undecided":
        epsilon = left_inside(epsilon, odds_spread(theta))
        return _unrounded_largest_tilts(theta, epsilon, "prior") if epsilon else (0.0, 0.0)
    q, r = theta.q_low, theta.r_low
    if theta.single:
        if q + r >= 1.0:
            return _largest_alternating_tilts(q, r, epsilon, adversary)
        return _largest_tilt(q, r, epsilon, adversary), _largest_tilt(r, q, epsilon, adversary)
    if not splits_by_state(theta):
        chain = changing_chains(theta, adversary, (0.0, 0.0))[0]
        tau = _largest_within(chain.endless_loss, epsilon, epsilon)
        return tau, tau
    tau0, tau1 = (
        _largest_within(
            lambda tau, state=state: endless_loss(theta, state, adversary, tau),  # type: ignore[misc]
            epsilon,
            _largest_tilt_to_prior(*chain, epsilon),
        )
        for state, chain in ((0, (q, r)), (1, (r, q)))
    )
    return tau0, tau1


def _largest_tilt(q: float, r: float, epsilon: float, adversary: Adversary) -> float:
    """The largest τ favouring 0, q+r < 1: for the informed adversary by false position below that for the prior one."""
    tau = _largest_tilt_to_prior(q, r, epsilon)
    if adversary == "prior":
        return tau
    return _largest_within(lambda t: t + 2.0 * endless_side_log_ratio(q, r, t, adversary), epsilon, tau)


def _largest_tilt_to_prior(q: float, r: float, epsilon: float) -> float:
    """M = u² where (1−q)·E·u² − (E²·r − q)·u − E·(1−r) = 0, E = e^{ε/2}; divided by E² to avoid overflow."""
    shrink = math.exp(-0.5 * epsilon)
    lean = r - q * shrink * shrink
    root = math.sqrt(lean * lean + 4.0 * (1.0 - q) * (1.0 - r) * shrink * shrink)
    # The form of the root that does not cancel.
    u = (
        (lean + root) / (2.0 * (1.0 - q) * shrink)
        if lean >= 0.0
        else 2.0 * (1.0 - r) * shrink / (root - lean)
    )
    return 2.0 * math.log(u) if u > 1.0 else 0.0


def _largest_within(function: Callable[[float], float], bound: float, high: float) -> float:
    """The largest argument in [0, high] at which a rising function that is 0 at 0 stays within the bound."""
    low, below, above = 0.0, -bound, function(high) - bound
    if above <= 0.0:
        return high
    # The Illinois method: secants that never leave [low, high]; an end that stays twice has its value halved.
    stayed = 0
    while high - low > 4.0 * UNIT_ROUNDOFF * high:
        middle = low + (high - low) * below / (below - above)
        # Kept off the ends, or a value that misses the bound by a rounding would end the search where it began.
        inset = 2.0**-40 * (high - low)
        middle = min(max(middle, low + inset), high - inset)
        if not low < middle < high:
            break
        value = function(middle) - bound
        if value > 0.0:
            high, above = middle, value
            below *= 0.5 if stayed < 0 else 1.0
            stayed = -1
        else:
            low, below = middle, value
            if value >= -_SLACK * bound:
                break
            above *= 0.5 if stayed > 0 else 1.0
            stayed = 1
    return low


def _largest_alternating_tilts(
    q: float, r: float, epsilon: float, adversary: Adversary
) -> tuple[float, float]:
    """For q+r ≥ 1, the pair with max(loss towards 0, loss towards 1) = ε whose crossing has the smallest ρ0 + ρ1."""

    def pair(share: float, kind: Adversary) -> tuple[float, float]:
        def worst(total: float) -> float:
            return max(_losses(q, r, total * share, total * (1.0 - share), kind))

        # The loss in each direction is at least its tilt.
        total = _largest_within(worst, epsilon, epsilon / max(share, 1.0 - share))
        return total * share, total * (1.0 - share)

    # Every share gives a valid pair; it is optimised for the prior adversary, whose loss is cheaper to compute.
    low, high, golden = 0.0, 1.0, (math.sqrt(5.0) - 1.0) / 2.0
    while high - low > 1e-3:
        left, right = high - golden * (high - low), low + golden * (high - low)
        if sum(_noise_at_crossing(*pair(left, "prior"))) < sum(_noise_at_crossing(*pair(right, "prior"))):
            high = right
        else:
            low = left
    tau0, tau1 = pair(0.5 * (low + high), adversary)
    # Use the remaining budget of one direction.
    tau0 = max(tau0, _largest_within(lambda tau: max(_losses(q, r, tau, tau1, adversary)), epsilon, epsilon))
    tau1 = max(tau1, _largest_within(lambda tau: max(_losses(q, r, tau0, tau, adversary)), epsilon, epsilon))
    return tau0, tau1


def _noise_at_crossing(tau0: float, tau1: float) -> tuple[float, float]:
    """Where 1−ρ0 = M0·ρ1 and 1−ρ1 = M1·ρ0 meet: ρ0 = (M0−1)/(M0·M1−1), ρ1 = (M1−1)/(M0·M1−1)."""
    # Divided by M0·M1: (1 − e^−τ0)·e^−τ1/(1 − e^−(τ0+τ1)).
    whole = -math.expm1(-tau0 - tau1)
    return (
        -math.expm1(-tau0) * math.exp(-tau1) / whole,
        -math.expm1(-tau1) * math.exp(-tau0) / whole,
    )
