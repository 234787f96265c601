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
from functools import partial
from typing import Literal

from hushmq.pufferfish.binary import alternating
from hushmq.pufferfish.binary.known_instant import Told, known_in_run, largest_soft, peak, soft_at
from hushmq.pufferfish.binary.ratio_orbit import LARGEST, UNIT, Orbit, orbit

Adversary = Literal["prior", "informed"]

# More than a few dozen rounded operations can lose.
_SLACK = 2.0**-46

# So often the most telling soft evidence is looked for before every instant is, at every step.
_LOOKS = 6


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

    @property
    def single(self) -> bool:
        """Whether there is only one chain in it."""
        return self.q_low == self.q_high and self.r_low == self.r_high

    def worst(self) -> list[tuple[float, float]]:
        """The corners (q, r) that decide the loss: one, or two if the box reaches both sides of q+r = 1."""
        corners = []
        if self.q_low + self.r_low < 1.0:
            corners.append((self.q_low, self.r_low))
        if self.q_high + self.r_high >= 1.0:
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

    docs/theory.md: Theorem 2 (prior), Theorem 4 (informed), Theorem 6 (why a corner of the box decides; the
    informed adversary against a box of more than one chain may also hold soft evidence).
    """
    check_tilts(tau0, tau1)
    check_adversary(adversary)
    if tau0 == tau1 == 0.0:
        return 0.0
    soft = not theta.single
    return up(max(max(_losses(q, r, tau0, tau1, adversary, soft)) for q, r in theta.worst()))


def limits(theta: Box, epsilon: float, adversary: Adversary = "informed") -> tuple[float, float]:
    """The largest tilts (τ0, τ1) = (log M0, log M1) with a loss of at most ε for every chain in Θ.

    For q+r ≤ 1 the two are independent: any (τ0, τ1) below both is within ε and no other is. For q+r > 1
    each direction uses both tilts, and this is the pair that leaves the most informative noise.
    docs/theory.md, Theorem 3.
    """
    tau0, tau1 = _limits(theta, epsilon, adversary)
    shrink = 2.0 * UNIT
    while loss(theta, tau0=tau0, tau1=tau1, adversary=adversary) > epsilon:
        tau0, tau1 = tau0 * max(0.0, 1.0 - shrink), tau1 * max(0.0, 1.0 - shrink)
        shrink *= 4.0
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
    tau0, tau1 = _limits(theta, epsilon, adversary)
    if not (tau0 > 0.0 and tau1 > 0.0):
        raise ValueError(f"epsilon is {epsilon!r}; no noise that says anything keeps it for this Θ")
    best = _crossing(tau0, tau1)
    if weights is not None:
        if not (min(weights) >= 0.0 and 0.0 < sum(weights) < math.inf):
            raise ValueError(f"weights are {weights!r}; they must be two non-negative numbers, not both 0")
        candidates = [best]
        if best[0] < 0.5:
            candidates.append((0.5, 0.5 * math.exp(-tau0)))
        if best[1] < 0.5:
            candidates.append((0.5 * math.exp(-tau1), 0.5))
        best = min(candidates, key=lambda rho: weights[0] * rho[0] + weights[1] * rho[1])
    # Raising ρ is rounding towards more noise. What rounding can have cost is a few units of loss, and the
    # loss falls at least as fast as the tilts, that is by more than the raise.
    rise = 0.0
    while True:
        noise = Noise(best[0] * (1.0 + rise), best[1] * (1.0 + rise))
        if loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=adversary) <= epsilon:
            return noise
        rise = 4.0 * rise + _SLACK


def up(value: float) -> float:
    """The value, raised by more than a few dozen rounded operations can have lost."""
    return value + _SLACK * (1.0 + value)


def check_tilts(tau0: float, tau1: float) -> None:
    """Refuse a tilt that is negative, infinite or not a number."""
    for name, tau in (("tau0", tau0), ("tau1", tau1)):
        if not (0.0 <= tau < math.inf):
            raise ValueError(f"{name} is {tau!r}; a tilt is a finite number of nats, 0 or more")


def check_adversary(adversary: str) -> None:
    """Refuse an adversary nobody has defined."""
    if adversary not in {"prior", "informed"}:
        raise ValueError(f"adversary is {adversary!r}; it is 'prior' or 'informed'")


def side(q: float, r: float, tau: float, adversary: Adversary, *, soft: bool = False) -> float:
    """One side's log-ratio favouring 0 on an endless stream, q+r < 1.

    Prior: log C∞. Informed: the largest V(l, y) over known instants, which is never below log C∞.
    """
    return _told(q, r, tau, adversary, soft=soft).value


def _told(q: float, r: float, tau: float, adversary: Adversary, *, soft: bool) -> Told:
    """The same, with the soft evidence that tells so much."""
    if tau == 0.0:
        return Told(0.0, None)
    tilted = orbit(q, r, tau)
    ignorant = math.log(tilted.limit)
    if adversary == "prior":
        return Told(ignorant, None)
    base = orbit(q, r, 0.0)
    best = max(ignorant, known_in_run(tilted, base, *peak(tilted, base)))
    return largest_soft(tilted, base, floor=best) if soft else Told(best, None)


def _losses(
    q: float, r: float, tau0: float, tau1: float, adversary: Adversary, soft: bool
) -> tuple[float, float]:
    """The losses towards 0 and towards 1 on an endless stream: τ + 2·(log-ratio of one side)."""
    if q + r < 1.0:
        side0, side1 = side(q, r, tau0, adversary, soft=soft), side(r, q, tau1, adversary, soft=soft)
    else:
        side0 = math.log(alternating.limit(q, r, tau0, tau1))
        side1 = math.log(alternating.limit(r, q, tau1, tau0))
        if adversary == "informed":
            side0 = alternating.known(q, r, alternating.turns(tau0, tau1), soft=soft, floor=side0)
            side1 = alternating.known(r, q, alternating.turns(tau1, tau0), soft=soft, floor=side1)
    return tau0 + 2.0 * side0, tau1 + 2.0 * side1


def _limits(theta: Box, epsilon: float, adversary: Adversary) -> tuple[float, float]:
    """The limits up to rounding: the smallest over the corners that decide."""
    if not (0.0 < epsilon <= LARGEST):
        raise ValueError(f"epsilon is {epsilon!r}; it must be positive and at most {LARGEST:g}")
    check_adversary(adversary)
    soft = not theta.single
    tau0 = tau1 = math.inf
    for q, r in theta.worst():
        if q + r < 1.0:
            pair = _limit(q, r, epsilon, adversary, soft), _limit(r, q, epsilon, adversary, soft)
        else:
            pair = _alternating_limits(q, r, epsilon, adversary, soft)
        tau0, tau1 = min(tau0, pair[0]), min(tau1, pair[1])
    return tau0, tau1


def _limit(q: float, r: float, epsilon: float, adversary: Adversary, soft: bool) -> float:
    """The largest τ favouring 0, q+r < 1.

    Prior: M = u² where (1−q)·E·u² − (E²·r − q)·u − E·(1−r) = 0, E = e^{ε/2}; here divided by E², which cannot
    overflow. Informed: by regula falsi below that; soft evidence tells more than known states, so below theirs.
    """
    shrink = math.exp(-0.5 * epsilon)
    lean = r - q * shrink * shrink
    root = math.sqrt(lean * lean + 4.0 * (1.0 - q) * (1.0 - r) * shrink * shrink)
    # Of the two forms of the root, the one that does not cancel.
    u = (
        (lean + root) / (2.0 * (1.0 - q) * shrink)
        if lean >= 0.0
        else 2.0 * (1.0 - r) * shrink / (root - lean)
    )
    tau = 2.0 * math.log(u) if u > 1.0 else 0.0
    if adversary == "prior":
        return tau
    tau = _largest_within(lambda t: t + 2.0 * side(q, r, t, adversary), epsilon, tau)
    return _soft_limit(q, r, epsilon, tau) if soft else tau


def _soft_limit(q: float, r: float, epsilon: float, tau: float) -> float:
    """The largest τ up to the given one against soft evidence.

    The search over all instants is long, so τ is found for the instant that tells most, until no other tells more.
    """
    base = orbit(q, r, 0.0)
    for _ in range(_LOOKS):
        value, at = _told(q, r, tau, "informed", soft=True)
        if tau + 2.0 * value <= epsilon or at is None:
            return tau
        alone = partial(_soft_loss, q, r, base, *at)
        # What the search left open stays open.
        spare = max(0.0, tau + 2.0 * value - alone(tau))
        tau = _largest_within(alone, epsilon - spare, tau)
    return _largest_within(lambda t: t + 2.0 * side(q, r, t, "informed", soft=True), epsilon, tau)


def _soft_loss(q: float, r: float, base: Orbit, distance: int, state: int, tau: float) -> float:
    """The loss with soft evidence about the instants at one distance, on both sides."""
    return tau + 2.0 * soft_at(orbit(q, r, tau).matrix(distance), base, distance, state)


def _largest_within(function: Callable[[float], float], bound: float, high: float) -> float:
    """The largest argument in [0, high] at which a rising function that is 0 at 0 stays within the bound."""
    low, below, above = 0.0, -bound, function(high) - bound
    if above <= 0.0:
        return high
    # The Illinois method: secants that never leave [low, high]; an end that stays twice has its value halved.
    stayed = 0
    while high - low > 4.0 * UNIT * high:
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


def _alternating_limits(
    q: float, r: float, epsilon: float, adversary: Adversary, soft: bool
) -> tuple[float, float]:
    """The pair with max(loss towards 0, towards 1) = ε whose crossing has the smallest ρ0 + ρ1, q+r ≥ 1."""

    def pair(share: float, kind: Adversary) -> tuple[float, float]:
        def worst(total: float) -> float:
            return max(_losses(q, r, total * share, total * (1.0 - share), kind, soft))

        # Each direction costs at least its own tilt.
        total = _largest_within(worst, epsilon, epsilon / max(share, 1.0 - share))
        return total * share, total * (1.0 - share)

    # The two adversaries differ little, so the share is found for the cheaper one; any share is within ε.
    low, high, golden = 0.0, 1.0, (math.sqrt(5.0) - 1.0) / 2.0
    while high - low > 1e-3:
        left, right = high - golden * (high - low), low + golden * (high - low)
        if sum(_crossing(*pair(left, "prior"))) < sum(_crossing(*pair(right, "prior"))):
            high = right
        else:
            low = left
    tau0, tau1 = pair(0.5 * (low + high), adversary)
    # What is left of ε in one direction only.
    tau0 = max(
        tau0, _largest_within(lambda tau: max(_losses(q, r, tau, tau1, adversary, soft)), epsilon, epsilon)
    )
    tau1 = max(
        tau1, _largest_within(lambda tau: max(_losses(q, r, tau0, tau, adversary, soft)), epsilon, epsilon)
    )
    return tau0, tau1


def _crossing(tau0: float, tau1: float) -> tuple[float, float]:
    """Where 1−ρ0 = M0·ρ1 and 1−ρ1 = M1·ρ0 meet: ρ0 = (M0−1)/(M0·M1−1), ρ1 = (M1−1)/(M0·M1−1)."""
    # Divided by M0·M1: (1 − e^−τ0)·e^−τ1/(1 − e^−(τ0+τ1)).
    whole = -math.expm1(-tau0 - tau1)
    return (
        -math.expm1(-tau0) * math.exp(-tau1) / whole,
        -math.expm1(-tau1) * math.exp(-tau0) / whole,
    )
