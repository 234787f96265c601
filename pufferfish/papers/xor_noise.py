"""Correlated noise for a symmetric binary chain: the stream XOR a second chain (CGSSY section 3.3).

The data chain changes state with probability θ ≤ 1/2, the noise chain goes from 0 to 1 with ρ0 and from 1 to 0 with
ρ1 ≥ ρ0, and both are stationary. An instant is flipped with probability ν = ρ0/(ρ0+ρ1). Independent noise is the case
ρ0+ρ1 = 1. For every ρ0+ρ1 ≤ 1 the loss against the adversary who knows no state, at its supremum over instants and
transcripts of any length, is

    2·asinh( (1−θ)/θ · sinh(τ/2) )   with τ = log((1−ν)/ν)

so correlated noise has no advantage: only ν matters. CGSSY observe this numerically for θ < ρ0; docs/theory-papers.md
proves it without that condition.
"""

from __future__ import annotations

import math

LARGEST = 700.0
"""The largest ε whose noise is representable in double precision."""


def loss(theta: float, rho0: float, rho1: float) -> float:
    """The loss of XOR noise, from the data chain's and the noise chain's probabilities of change."""
    _require_theta(theta)
    if not (0 < rho0 <= rho1 and rho0 + rho1 <= 1 + 1e-12):
        raise ValueError(
            f"rho0 is {rho0:g} and rho1 {rho1:g}; they must satisfy 0 < rho0 ≤ rho1 and rho0 + rho1 ≤ 1"
        )
    # sinh(τ/2) = (1−2ν)/(2√(ν(1−ν))) = (ρ1−ρ0)/(2√(ρ0ρ1))
    return 2 * math.asinh((1 - theta) / theta * (rho1 - rho0) / (2 * math.sqrt(rho0 * rho1)))


def noise(theta: float, epsilon: float) -> float:
    """The least share ν of flipped instants with a loss of at most ε, the same for every ρ0+ρ1 ≤ 1."""
    _require_theta(theta)
    if not 0 < epsilon <= LARGEST:
        raise ValueError(f"epsilon is {epsilon:g}; it must be positive and at most {LARGEST:g}")
    tau = 2 * math.asinh(theta / (1 - theta) * math.sinh(epsilon / 2))
    return 1 / (1 + math.exp(tau))


def _require_theta(theta: float) -> None:
    if not 0 < theta <= 0.5:
        raise ValueError(f"theta is {theta:g}; the probability of a change of state lies in (0, 0.5]")
