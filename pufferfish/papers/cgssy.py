"""CGSSY's theorems under their numbers: independent noise on a lazy binary chain against the prior adversary.

They hold for q, r < 1/2 and noise ρ0, ρ1 ≤ 1/2. `stream_loss` has certified results for every Θ and both adversaries;
the functions here are the paper's formulas as printed, for comparison. Two claims of the paper are false
(docs/theory.md):

- Theorem 2, that the adversary who knows no state is the hardest to protect against. None of these numbers is a
  guarantee against the informed adversary; `stream_loss.loss` is.
- The bound of section 4.3 on an attacker's success: `success_as_printed`.

Proposition 1, Zhao et al.'s reduction, is `zhao.reduction`; the correlated noise of section 3.3 is `xor`.
"""

from __future__ import annotations

import math

from hushmq.pufferfish.binary import stream_loss as binary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.papers import xor_noise as xor


def theorem_1(q: float, r: float, noise: BinaryNoise) -> float:
    """The loss log(a²/(c·d)), the larger of both directions: tight for the middle of a long chain."""
    _check_lazy(q, r)
    if max(noise.rho0, noise.rho1) > 0.5:
        raise ValueError(f"noise is {noise}; Theorem 1 takes rho0 and rho1 up to 1/2")
    return max(_ratio(q, r, noise.rho0, noise.rho1), _ratio(r, q, noise.rho1, noise.rho0))


def _ratio(q: float, r: float, rho0: float, rho1: float) -> float:
    """Theorem 1 for X_i = 0 against X_i = 1, all outputs being 0."""
    keep, flip = 1.0 - rho0, rho1
    a = (
        math.sqrt((1 - q) ** 2 * keep**2 - 2 * (1 - q - r - q * r) * keep * flip + (1 - r) ** 2 * flip**2)
        + keep * (1 - q)
        - flip * (1 - r)
    )
    c, d = 2 * r * flip, 2 * r * keep
    return 2 * math.log(a) - math.log(c) - math.log(d)


def corollary_1(q: float, r: float, epsilon: float) -> BinaryNoise:
    """The noise of at most 1/2 with a loss of at most ε that minimises the share of flips, π0·ρ0 + π1·ρ1.

    The constraints, which CGSSY omit, are 1−ρ0 ≤ M0·ρ1 and 1−ρ1 ≤ M1·ρ0, with M0 and M1 from `binary.largest_tilts`;
    the minimum is where the two lines cross or where one of them meets ρ0 = 1/2 or ρ1 = 1/2.
    """
    _check_lazy(q, r)
    _check_epsilon(epsilon)
    theta = BinaryTheta.point(q, r)
    tau0, tau1 = binary.largest_tilts(theta, epsilon, "prior")
    s0, s1 = math.exp(-tau0), math.exp(-tau1)
    whole = -math.expm1(-tau0 - tau1)
    corners = [
        (-math.expm1(-tau0) * s1 / whole, -math.expm1(-tau1) * s0 / whole),
        (0.5, max(0.5 * s0, 1 - 0.5 / s1)),
        (max(0.5 * s1, 1 - 0.5 / s0), 0.5),
    ]
    rho0, rho1 = min(
        (corner for corner in corners if max(corner) <= 0.5), key=lambda rho: r * rho[0] + q * rho[1]
    )
    # Compensate rounding errors with more noise, up to 1/2.
    rise = 0.0
    while True:
        noise = BinaryNoise(min(0.5, rho0 * (1 + rise)), min(0.5, rho1 * (1 + rise)))
        if binary.loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary="prior") <= epsilon:
            return noise
        rise = 4 * rise + 2.0**-46


def corollary_2(theta: float, rho: float) -> float:
    """The loss log((1−ρ)/ρ·(a/c)²) of a symmetric chain, q = r = θ and ρ0 = ρ1 = ρ."""
    _check_lazy(theta, theta)
    if not 0.0 < rho <= 0.5:
        raise ValueError(f"rho is {rho!r}; it must be in (0, 1/2]")
    a = math.sqrt(theta**2 + (1 - 2 * theta) * (1 - 2 * rho) ** 2) + (1 - theta) * (1 - 2 * rho)
    c = 2 * theta * (1 - rho)
    return math.log((1 - rho) / rho) + 2 * math.log(a / c)


def corollary_2_noise(theta: float, epsilon: float) -> float:
    """CGSSY's approximate inverse of `corollary_2`: a sufficient ρ for ε, not the smallest.

    The printed fraction is 2/(u + √(t(4−4θ+t))) with t = θ²e^ε, u = 4−2θ+t; this form has no cancellation.
    """
    _check_lazy(theta, theta)
    _check_epsilon(epsilon)
    t = theta**2 * math.exp(epsilon)
    return 2 / (4 - 2 * theta + t + math.sqrt(t) * math.sqrt(4 - 4 * theta + t))


def corollary_2_exact(theta: float, epsilon: float) -> float:
    """The exact inverse of `corollary_2`, not in the paper: sinh(τ/2) = θ/(1−θ)·sinh(ε/2), ρ = 1/(1+e^τ)."""
    _check_lazy(theta, theta)
    _check_epsilon(epsilon)
    return xor.noise(theta, epsilon)


def success(epsilon: float) -> float:
    """e^ε/(1+e^ε): the success probability of an attacker with a uniform prior (section 4.1)."""
    return _share(epsilon, 1.0)


def success_as_printed(epsilon: float, q: float, r: float) -> float:
    """e^ε/(max(q/r, r/q)+e^ε), as printed in section 4.3: a bound on the posterior of the rarer state only.

    Always guessing the more frequent state succeeds with probability max(q, r)/(q+r), which may exceed it.
    """
    _check_lazy(q, r)
    return _share(epsilon, max(q / r, r / q))


def success_bound(epsilon: float, q: float, r: float) -> float:
    """e^ε/(min(q/r, r/q)+e^ε): a bound on any attacker's success, from posterior odds ≤ e^ε · prior odds."""
    _check_lazy(q, r)
    return _share(epsilon, min(q / r, r / q))


def _share(epsilon: float, odds: float) -> float:
    """e^ε/(odds+e^ε), without overflow."""
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon is {epsilon!r}; it must be a number, 0 or more")
    return 1 / (odds * math.exp(-epsilon) + 1)


def _check_epsilon(epsilon: float) -> None:
    if not 0.0 < epsilon <= xor.LARGEST:
        raise ValueError(f"epsilon is {epsilon!r}; it must be positive and at most {xor.LARGEST:g}")


def _check_lazy(q: float, r: float) -> None:
    for name, value in (("q", q), ("r", r)):
        if not 0.0 < value < 0.5:
            raise ValueError(f"{name} is {value!r}; CGSSY's chains are lazy, it must be inside (0, 1/2)")
