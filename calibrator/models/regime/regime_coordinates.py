"""The coordinates in which a chain with two regimes is learned, and the chain that they describe.

Let both inner chains share λ_f = 1 − fast_rate, so that the new bit is X' = λ_f·X + (1−λ_f)·share(R') on average, and
let the regimes be left at such rates that their chain has the eigenvalue λ_s = 1 − slow_rate and is in the upper regime
for the share `upper_time` of all ticks. With G = share(R) and V = Var G, Cov(X_t, G_t) = (1−λ_f)·V/(1−λ_f·λ_s). From
C(h) = λ_f·C(h−1) + (1−λ_f)·λ_s^h·Cov(X, G) follows, for the bits,

    C(h)/(π0·π1) = (1−w)·λ_f^h + w·λ_s^h,    w·π0·π1 = V·(1−λ_f)²·λ_s / ((1−λ_f·λ_s)·(λ_s−λ_f)).

So means and products of two states determine the share π1 of ones, the slow share w of the variance and both rates,
and say nothing of upper_time: it is bounded only by the regimes' shares, π1 − u·d and π1 + (1−u)·d with d² =
V/(u(1−u)), which must lie within 0 … 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmq.pufferfish.regimes.regime_chain import RegimeChain

LEAST_SHARE = 1e-3
"""No regime has fewer zeros or ones than this: shares beyond cannot be distinguished from it, and have no price."""


@dataclass(frozen=True, slots=True)
class RegimeCoordinates:
    """One chain: π1, w, 1−λ_s and 1−λ_f."""

    share: float
    slow_share: float
    slow_rate: float
    fast_rate: float

    @property
    def between(self) -> float:
        """V, the variance of the share of ones between regimes."""
        fast, slow = 1 - self.fast_rate, 1 - self.slow_rate
        shrunk = (1 - fast * slow) * (slow - fast) / (self.fast_rate**2 * slow)
        return self.slow_share * self.share * (1 - self.share) * shrunk

    def upper_times(self) -> tuple[float, float] | None:
        """The least and the largest share of time in the upper regime; None where no regimes are so different.

        The lower regime's share is at least LEAST_SHARE if u/(1−u) ≤ (π1−LEAST_SHARE)²/V, the upper one's if
        (1−u)/u ≤ (π0−LEAST_SHARE)²/V.
        """
        if self.slow_rate >= self.fast_rate:
            return None
        below, above = (max(0.0, part - LEAST_SHARE) ** 2 for part in (self.share, 1 - self.share))
        largest, least = below / (below + self.between), self.between / (above + self.between)
        return (least, largest) if least <= largest else None

    def chain(self, upper_time: float) -> RegimeChain:
        """The chain that is in the upper regime for this share of the time; ValueError where there is none."""
        u, d = upper_time, math.sqrt(self.between / (upper_time * (1 - upper_time)))
        shares = (self.share - u * d, self.share + (1 - u) * d)
        if not (shares[0] > 0 and shares[1] < 1):
            raise ValueError(f"no two regimes have shares {shares[0]:.4g} and {shares[1]:.4g}")
        up, down = u * self.slow_rate, (1 - u) * self.slow_rate
        return RegimeChain.of(
            [[1 - up, up], [down, 1 - down]],
            [(self.fast_rate * share, self.fast_rate * (1 - share)) for share in shares],
        )
