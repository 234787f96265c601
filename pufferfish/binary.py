"""Binary chains, exactly: loss from noise and noise from loss, for both adversaries.

A chain over {0, 1} has q = P(0→1) and r = P(1→0); λ = 1 − q − r is its correlation. What is published
at one tick changes the likelihood by at most a factor m0 = e^τ0 towards state 0 and m1 = e^τ1 towards
state 1. Every number returned here is certified: a loss is never below the supremum it stands for, a limit
or a noise setting never gives a loss above the ε it was asked for. Rounding errors are pushed outwards.

Standard library only, so that a device can check what it is told. The theorems are in docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Adversary = Literal["prior", "informed"]

# One rounding unit of a double, and what a few dozen operations can lose.
_UNIT = 2.0**-53
_SLACK = 2.0**-46


@dataclass(frozen=True, slots=True)
class Box:
    """Θ, the chains an adversary may believe in: q and r each in a closed interval inside (0, 1)."""

    q_low: float
    q_high: float
    r_low: float
    r_high: float

    def __post_init__(self) -> None:
        for name, low, high in (("q", self.q_low, self.q_high), ("r", self.r_low, self.r_high)):
            if not (0.0 < low <= high < 1.0):
                raise ValueError(
                    f"Θ: {name} is [{low!r}, {high!r}]; it must be an interval inside (0, 1), low end first"
                )

    @classmethod
    def point(cls, q: float, r: float) -> Box:
        """The class of one chain."""
        return cls(q, q, r, r)

    def contains(self, other: Box) -> bool:
        """Whether every chain of the other box is in this one."""
        return (
            self.q_low <= other.q_low
            and other.q_high <= self.q_high
            and self.r_low <= other.r_low
            and other.r_high <= self.r_high
        )

    def intersect(self, other: Box) -> Box:
        """The chains in both; ValueError if there are none."""
        low_q, high_q = max(self.q_low, other.q_low), min(self.q_high, other.q_high)
        low_r, high_r = max(self.r_low, other.r_low), min(self.r_high, other.r_high)
        if low_q > high_q or low_r > high_r:
            raise ValueError(f"Θ: {self} and {other} have no chain in common")
        return Box(low_q, high_q, low_r, high_r)

    def hull(self, other: Box) -> Box:
        """The smallest box that contains both."""
        return Box(
            min(self.q_low, other.q_low),
            max(self.q_high, other.q_high),
            min(self.r_low, other.r_low),
            max(self.r_high, other.r_high),
        )

    def worst(self) -> list[tuple[float, float]]:
        """The corners (q, r) that decide the loss: one, or two if the box reaches both sides of q+r = 1."""
        corners = []
        if self.q_low + self.r_low <= 1.0:
            corners.append((self.q_low, self.r_low))
        if self.q_high + self.r_high > 1.0:
            corners.append((self.q_high, self.r_high))
        return corners


@dataclass(frozen=True, slots=True)
class Noise:
    """Independent noise on one bit: ρ0 = P(Z=1 | X=0), ρ1 = P(Z=0 | X=1), with ρ0 + ρ1 < 1."""

    rho0: float
    rho1: float

    def __post_init__(self) -> None:
        for name, rho in (("rho0", self.rho0), ("rho1", self.rho1)):
            if not (0.0 < rho < 1.0):
                raise ValueError(f"{name} is {rho!r}; it must be inside (0, 1)")
        if not (self.rho0 + self.rho1 < 1.0):
            raise ValueError(
                f"rho0 + rho1 is {self.rho0 + self.rho1!r}; it must be below 1, or the output says nothing"
            )

    @property
    def tau0(self) -> float:
        """The tilt towards state 0: log((1−ρ0)/ρ1)."""
        return math.log((1.0 - self.rho0) / self.rho1)

    @property
    def tau1(self) -> float:
        """The tilt towards state 1: log((1−ρ1)/ρ0)."""
        return math.log((1.0 - self.rho1) / self.rho0)


def loss(theta: Box, *, tau0: float, tau1: float, adversary: Adversary = "informed") -> float:
    """The loss of an endless stream with the same tilts at every tick, worst over Θ.

    docs/theory.md, Theorems 2 (prior) and 4 (informed); the corners are Theorem 5.
    """
    _check_tilts(tau0, tau1)
    _check_adversary(adversary)
    if tau0 == 0.0 and tau1 == 0.0:
        return 0.0
    worst = max(max(_losses(q, r, tau0, tau1, adversary)) for q, r in theta.worst())
    return _up(max(worst, tau0, tau1))


def limits(theta: Box, epsilon: float, adversary: Adversary = "informed") -> tuple[float, float]:
    """The largest tilts (τ0, τ1) = (log M0, log M1) with a loss of at most ε for every chain in Θ.

    For q+r ≤ 1 the two are independent: any (τ0, τ1) below both is within ε and no other is. For q+r > 1
    each direction uses both tilts, and this is the pair that leaves the most informative noise.
    """
    if not (0.0 < epsilon < math.inf):
        raise ValueError(f"epsilon is {epsilon!r}; it must be a positive, finite number")
    _check_adversary(adversary)
    pairs = [_corner_limits(q, r, epsilon, adversary) for q, r in theta.worst()]
    tau0, tau1 = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
    step = _SLACK
    while loss(theta, tau0=tau0, tau1=tau1, adversary=adversary) > epsilon:
        tau0, tau1 = tau0 * max(0.0, 1.0 - step), tau1 * max(0.0, 1.0 - step)
        step *= 2.0
    return tau0, tau1


def optimal_noise(
    theta: Box,
    epsilon: float,
    adversary: Adversary = "informed",
    weights: tuple[float, float] | None = None,
) -> Noise:
    """The noise within ε that minimises w0·ρ0 + w1·ρ1.

    Without weights both errors count alike, which leaves the most of the signal: 1−ρ0−ρ1 is largest. With
    the stationary distribution as weights it is the expected share of wrong bits (CGSSY Corollary 1). The
    feasible set is 1−ρ0 ≤ M0·ρ1, 1−ρ1 ≤ M1·ρ0, so the best is the crossing of the two lines or the point
    of one of them where ρ reaches 1/2.
    """
    tau0, tau1 = limits(theta, epsilon, adversary)
    crossing = _crossing(tau0, tau1)
    if crossing is None:
        raise ValueError(f"epsilon is {epsilon!r}; no noise that says anything keeps it for this Θ")
    rho0, rho1 = crossing
    candidates = [(rho0, rho1)]
    if weights is not None:
        if not (min(weights) >= 0.0 and 0.0 < sum(weights) < math.inf):
            raise ValueError(f"weights are {weights!r}; they must be two non-negative numbers, not both 0")
        if rho0 < 0.5:
            candidates.append((0.5, 0.5 * math.exp(-tau0)))
        if rho1 < 0.5:
            candidates.append((0.5 * math.exp(-tau1), 0.5))
    w0, w1 = weights or (1.0, 1.0)
    best = min(candidates, key=lambda rho: w0 * rho[0] + w1 * rho[1])
    step = _UNIT
    while True:
        # Rounding ρ up is rounding towards more noise.
        noise = Noise(best[0] * (1.0 + step), best[1] * (1.0 + step))
        if loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=adversary) <= epsilon:
            return noise
        step *= 2.0


def _up(value: float) -> float:
    """The value, raised by more than a few dozen rounded operations can have lost."""
    return value + _SLACK * (1.0 + value)


def _check_tilts(tau0: float, tau1: float) -> None:
    for name, tau in (("tau0", tau0), ("tau1", tau1)):
        if not (0.0 <= tau < math.inf):
            raise ValueError(f"{name} is {tau!r}; a tilt is a finite number of nats, 0 or more")


def _check_adversary(adversary: str) -> None:
    if adversary not in {"prior", "informed"}:
        raise ValueError(f"adversary is {adversary!r}; it is 'prior' or 'informed'")


def _losses(q: float, r: float, tau0: float, tau1: float, adversary: Adversary) -> tuple[float, float]:
    """The losses towards 0 and towards 1 on an endless stream: τ + 2·(log-ratio of one side)."""
    if q + r > 1.0:
        side0, side1 = _alternating_sides(q, r, tau0, tau1, adversary)
    else:
        side0, side1 = _side(q, r, tau0, adversary), _side(r, q, tau1, adversary)
    return tau0 + 2.0 * side0, tau1 + 2.0 * side1


def _side(q: float, r: float, tau: float, adversary: Adversary) -> float:
    """One side's log-ratio favouring 0, q+r ≤ 1: log C∞, or its largest value over a known instant.

    C = (m·C·(1−q) + q)/(m·C·r + 1−r) has the fixed point C∞. Started from a known state it approaches C∞
    as a Möbius orbit does, C_l = C∞·(1 + μ^l/κ)/(1 − μ^l) from state 0 and C∞·(1 − μ^l)/(1 + κ·μ^l) from
    state 1, and so does P^l[0,y]/P^l[1,y] towards 1, with λ and κ0 = r/q.
    """
    if tau == 0.0:
        return 0.0
    shrink = math.exp(-tau)  # everything is divided by m, so that nothing overflows
    a, b, c, d = 1.0 - q, q * shrink, r, (1.0 - r) * shrink
    difference = (r - q) - (1.0 - r) * math.expm1(-tau)
    ratio, spread = _fixed_point(a, b, c, d, difference)
    side = math.log(ratio)
    if adversary == "prior" or q + r == 1.0:
        return side
    log_lam = math.log1p(-(q + r))
    log_mu = math.log1p(-spread / (c * ratio + d))
    kappa, kappa0 = ratio * ratio * c / b, r / q
    if log_mu < log_lam:  # then a known 1 says more than a known 0; both shapes are the same up to a swap
        log_mu, log_lam, kappa, kappa0 = log_lam, log_mu, 1.0 / kappa0, 1.0 / kappa

    def excess(distance: int) -> float:
        return _orbit(distance * log_mu, kappa) - _orbit(distance * log_lam, kappa0)

    return side + max(0.0, _largest(excess))


def _orbit(exponent: float, kappa: float) -> float:
    """log((1 + s/κ)/(1 − s)) at s = e^exponent."""
    s = math.exp(exponent)
    return math.log1p(s / kappa) - math.log(-math.expm1(exponent))


def _largest(excess: Callable[[int], float]) -> float:
    """The largest value at an integer ≥ 1 of a function that rises, then falls (docs/theory.md, Lemma 4)."""
    low, high = 1, 2
    while excess(high + 1) > excess(high):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if excess(middle + 1) > excess(middle):
            low = middle + 1
        else:
            high = middle
    return excess(low)


def _fixed_point(a: float, b: float, c: float, d: float, difference: float) -> tuple[float, float]:
    """The attracting fixed point of x → (a·x+b)/(c·x+d), and the gap between the matrix's eigenvalues.

    The difference a−d comes separately, computed without cancellation; its rounding error is added to it,
    since the fixed point rises with it.
    """
    difference += 8.0 * _UNIT * (a + d)
    spread = math.sqrt(difference * difference + 4.0 * b * c)
    if difference >= 0.0:
        return (difference + spread) / (2.0 * c), spread
    return 2.0 * b / (spread - difference), spread


def _alternating_sides(
    q: float, r: float, tau0: float, tau1: float, adversary: Adversary
) -> tuple[float, float]:
    """One side's log-ratios favouring 0 and favouring 1 for q+r > 1, where the worst transcript alternates.

    C = ((1−q) + q·m1·D)/(r + (1−r)·m1·D) and D = ((1−r) + r·m0·C)/(q + (1−q)·m0·C).
    """
    ratio0 = _alternating_fixed_point(q, r, tau0, tau1)
    ratio1 = _alternating_fixed_point(r, q, tau1, tau0)
    best0, best1 = math.log(ratio0), math.log(ratio1)
    if adversary == "prior":
        return best0, best1
    m0, m1, lam = math.exp(tau0), math.exp(tau1), 1.0 - q - r
    # C and D at the distance reached, from a known 0 and from a known 1.
    c_from0, c_from1, d_from0, d_from1 = (1.0 - q) / r, q / (1.0 - r), r / (1.0 - q), (1.0 - r) / q
    s = lam
    while True:
        base0 = (1.0 + q / r * s) / (1.0 - s)  # P^l[0,0]/P^l[1,0]
        base1 = (1.0 - s) / (1.0 + r / q * s)  # P^l[0,1]/P^l[1,1]
        best0 = max(best0, math.log(max(c_from0 / base0, c_from1 / base1)))
        best1 = max(best1, math.log(max(d_from0 * base0, d_from1 * base1)))
        # Whatever is known further away, C and D lie between the two values reached here.
        rest0 = math.log(max(c_from0, c_from1) / min(base0, base1))
        rest1 = math.log(max(d_from0, d_from1) * max(base0, base1))
        if rest0 <= best0 + _SLACK and rest1 <= best1 + _SLACK:
            return max(best0, rest0), max(best1, rest1)
        c_from0, d_from0 = _towards0(q, r, m1 * d_from0), _towards1(q, r, m0 * c_from0)
        c_from1, d_from1 = _towards0(q, r, m1 * d_from1), _towards1(q, r, m0 * c_from1)
        s *= lam


def _towards0(q: float, r: float, x: float) -> float:
    return ((1.0 - q) + q * x) / (r + (1.0 - r) * x)


def _towards1(q: float, r: float, x: float) -> float:
    return ((1.0 - r) + r * x) / (q + (1.0 - q) * x)


def _alternating_fixed_point(q: float, r: float, tau0: float, tau1: float) -> float:
    """C∞ for q+r > 1: the fixed point of the two steps of the recursion together, divided by m0·m1."""
    shrink0, shrink1 = math.exp(-tau0), math.exp(-tau1)
    a = q * r + (1.0 - q) ** 2 * shrink1
    b = (q * (1.0 - r) + q * (1.0 - q) * shrink1) * shrink0
    c = r * (1.0 - r) + r * (1.0 - q) * shrink1
    d = ((1.0 - r) ** 2 + q * r * shrink1) * shrink0
    return _fixed_point(a, b, c, d, a - d)[0]


def _corner_limits(q: float, r: float, epsilon: float, adversary: Adversary) -> tuple[float, float]:
    """Limits for one chain, up to rounding."""
    if q + r <= 1.0:
        return _limit(q, r, epsilon, adversary), _limit(r, q, epsilon, adversary)
    return _alternating_limits(q, r, epsilon, adversary)


def _limit(q: float, r: float, epsilon: float, adversary: Adversary) -> float:
    """The largest τ favouring 0, q+r ≤ 1.

    Prior: M = u², (1−q)·E·u² − (E²·r − q)·u − E·(1−r) = 0 with E = e^{ε/2}, divided by E² to avoid overflow
    and by E·u to read off log u.
    """
    shrink = math.exp(-0.5 * epsilon)
    lean = r - q * shrink * shrink
    root = math.sqrt(lean * lean + 4.0 * (1.0 - q) * (1.0 - r) * shrink * shrink)
    # u·(2·(1−q)·shrink) = lean + root; with lean < 0 the other form has no cancellation.
    u = (
        (lean + root) / (2.0 * (1.0 - q) * shrink)
        if lean >= 0.0
        else 2.0 * (1.0 - r) * shrink / (root - lean)
    )
    tau = 2.0 * math.log(u) if u > 1.0 else 0.0
    if adversary == "prior" or q + r == 1.0:
        return tau
    return _largest_within(lambda t: t + 2.0 * _side(q, r, t, adversary), epsilon, tau)


def _largest_within(function: Callable[[float], float], bound: float, high: float) -> float:
    """The largest argument in [0, high] at which a rising function that is 0 at 0 stays within the bound."""
    low, below, above = 0.0, -bound, function(high) - bound
    if above <= 0.0:
        return high
    while high - low > 2.0 * _UNIT * high and below < -_UNIT * bound:
        middle = low + (high - low) * below / (
            below - above
        )  # the Illinois method: it never leaves [low, high]
        middle = min(max(middle, low + 2.0**-40 * (high - low)), high - 2.0**-40 * (high - low))
        value = function(middle) - bound
        if value > 0.0:
            high, above, below = middle, value, 0.5 * below
        else:
            low, below, above = middle, value, 0.5 * above
    return low


def _alternating_limits(q: float, r: float, epsilon: float, adversary: Adversary) -> tuple[float, float]:
    """The pair with max(loss towards 0, towards 1) = ε whose crossing has the smallest ρ0 + ρ1, q+r > 1."""

    def pair(share: float) -> tuple[float, float]:
        def worst(total: float) -> float:
            return max(_losses(q, r, total * share, total * (1.0 - share), adversary))

        total = _largest_within(worst, epsilon, epsilon / max(share, 1.0 - share))
        return total * share, total * (1.0 - share)

    def error(share: float) -> float:
        crossing = _crossing(*pair(share))
        return 1.0 if crossing is None else sum(crossing)

    low, high, golden = 0.0, 1.0, (math.sqrt(5.0) - 1.0) / 2.0
    while high - low > 1e-6:
        left, right = high - golden * (high - low), low + golden * (high - low)
        if error(left) < error(right):
            high = right
        else:
            low = left
    return pair(0.5 * (low + high))


def _crossing(tau0: float, tau1: float) -> tuple[float, float] | None:
    """Where 1−ρ0 = M0·ρ1 and 1−ρ1 = M1·ρ0 meet: ρ0 = (M0−1)/(M0·M1−1), ρ1 = (M1−1)/(M0·M1−1)."""
    both = tau0 + tau1
    if both <= 0.0 or tau0 == 0.0 or tau1 == 0.0:
        return None
    # Divided by M0·M1: (1 − e^−τ0)·e^−τ1/(1 − e^−(τ0+τ1)).
    whole = -math.expm1(-both)
    return (
        -math.expm1(-tau0) * math.exp(-tau1) / whole,
        -math.expm1(-tau1) * math.exp(-tau0) / whole,
    )
