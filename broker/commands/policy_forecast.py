"""What a policy will mean for a stream, computed before anything is pushed.

The same formulas as the calibrator's (calibrator/ledger/audience_timelines.py, calibrator/settings/calibrate.py):
the noise on the device is the best within ε of the operator for Θ; the windows share the tilt that keeps tumbling
windows within ε of the public for ever, w = the largest with amplified(noise, w) ≤ what the window's method allows
(pufferfish/window_method.py). For more than two states losses are those that certificates prove (docs/theory-k.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmq.broker.contract.messages import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.binary import amplification
from hushmq.pufferfish.binary.stream_loss import Adversary, Box, Noise, limits, loss, optimal_noise
from hushmq.pufferfish.categorical import emission
from hushmq.pufferfish.categorical.contraction import certificate_for, largest_tilt
from hushmq.pufferfish.categorical.transition_intervals import Class, Rows
from hushmq.pufferfish.window_method import window_limit

HOUR_MS = 3_600_000
LARGEST_TILT = 8.0
MOST_STATES = 8
"""Of streams with more Θ is not learned, and nothing is paid for it."""


@dataclass(frozen=True, slots=True)
class Share:
    """One window for one scope: what it costs at every tick it covers, and the noise that buys."""

    window: str
    scope: str
    ticks: int
    tilt: float
    scale: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """One stream under a policy."""

    theta: Box | Class
    noise: Noise | Rows
    """Flips of two states, or the emission matrix of more."""
    operator: float
    """The loss of an endless stream for whoever reads it."""
    public: float
    """The loss of windows for ever for whoever reads only releases."""
    hourly_error: float
    """Standard error of the frequency in an hour's histogram of the cohort, at the worst frequency."""
    learning: float
    shares: tuple[Share, ...]

    @property
    def tilt(self) -> float:
        """What all windows over one tick cost together, with what is learned from it."""
        return sum(share.tilt for share in self.shares) + self.learning


def forecast(
    policy: StreamPolicy, theta: Box | Class, *, devices: int, noise: Noise | Rows | None = None
) -> Forecast:
    """What the policy means for `devices` devices while Θ is believed; with the noise given, or the best."""
    # One tick changes one count of two states by one, and two counts of more.
    changed = 1 if len(policy.states) == 2 else 2
    own = sum(changed / window.scale for window in policy.device_windows.values())
    noise = noise or _best_noise(policy, theta, own)
    count = sum(len(window.scopes) for window in policy.windows.values())
    allowed = {name: _allowed(policy, name, theta, noise, own) for name in policy.windows}
    learned = policy.learning if len(policy.states) <= MOST_STATES else 0.0
    shares = tuple(
        Share(name, scope, window.ticks, tilt, changed / tilt)
        for name, window in policy.windows.items()
        for tilt in [allowed[name] * (1 - learned) / count]
        for scope in window.scopes
    )
    shortest = min(policy.windows, key=lambda name: (policy.windows[name].ticks, name), default=None)
    learning = 0.0 if shortest is None else allowed[shortest] * learned
    tau0, tau1 = _tilts(noise)
    public = own + _amplified(noise, sum(share.tilt for share in shares) + learning)
    return Forecast(
        theta=theta,
        noise=noise,
        operator=_loss(theta, tau0 + own, tau1 + own, policy.adversary),
        public=_loss(theta, public, public, policy.adversary),
        hourly_error=_error(
            noise,
            states=max(1, devices) * (HOUR_MS / policy.period_ms),
            scale=min((share.scale for share in shares), default=0.0),
        ),
        learning=learning,
        shares=shares,
    )


def _allowed(policy: StreamPolicy, window: str, theta: Box | Class, noise: Noise | Rows, own: float) -> float:
    """What all windows together might cost a sanitized state if all were made by this one's method."""
    epsilon = policy.epsilon.public
    try:
        left = window_limit(policy.windows[window].method, theta, epsilon, policy.adversary) - own
        if isinstance(theta, Class):
            # What is released is priced by the tilted quilt, whatever chose its noise.
            left = min(left, window_limit("tilted-quilt", theta, epsilon, policy.adversary) - own)
    except ValueError as error:
        raise Problem(f"windows.{window}.method: {error}") from None
    if left + own <= 0:
        raise Problem(f"epsilon.public: no release is within {epsilon:g}: chains of Θ may forget too slowly")
    if left <= 0:
        raise Problem(f"epsilon.public: the device's own windows leave nothing of {epsilon:g} for others")
    if isinstance(noise, Noise):
        return min(LARGEST_TILT, amplification.release_tilt(noise, left))
    return min(LARGEST_TILT, emission.release_tilt(noise, left))


def _best_noise(policy: StreamPolicy, theta: Box | Class, own: float) -> Noise | Rows:
    """The best noise within ε of the operator after what device-made windows cost at every tick."""
    epsilon = policy.epsilon.operator
    if isinstance(theta, Box):
        if not own:
            return optimal_noise(theta, epsilon, policy.adversary)
        taus = limits(theta, epsilon, policy.adversary)
    else:
        try:
            taus = (largest_tilt(theta, epsilon).tau,) * 2
        except ValueError as error:
            raise Problem(f"epsilon.operator: {error}: narrow theta, or raise ε") from None
    tau0, tau1 = (tau - own for tau in taus)
    if min(tau0, tau1) <= 0:
        raise Problem(f"epsilon.operator: the device's own windows leave nothing of {epsilon:g}")
    if isinstance(theta, Class):
        return emission.response(theta.k, tau0)
    both = math.expm1(tau0 + tau1)
    return Noise(math.expm1(tau0) / both, math.expm1(tau1) / both)


def _tilts(noise: Noise | Rows) -> tuple[float, float]:
    """What the sanitized stream tells at one tick, towards 0 and towards 1, or in any direction."""
    return (noise.tau0, noise.tau1) if isinstance(noise, Noise) else (emission.tilt_of(noise),) * 2


def _amplified(noise: Noise | Rows, w: float) -> float:
    if isinstance(noise, Noise):
        return amplification.amplified(noise, w)
    return emission.amplified(noise, w)


def _loss(theta: Box | Class, tau0: float, tau1: float, adversary: Adversary) -> float:
    """The loss of these tilts for ever; infinite where nothing is proved."""
    if isinstance(theta, Box):
        return loss(theta, tau0=tau0, tau1=tau1, adversary=adversary)
    tau = max(tau0, tau1)
    try:
        return certificate_for(theta, tau).loss if tau > 0 else 0.0
    except ValueError:
        return math.inf


def _error(noise: Noise | Rows, *, states: float, scale: float) -> float:
    """Of a frequency among so many states, each drawn through the noise and counted with Laplace noise.

    A state's frequency is estimated by the mean of weights a_z over the outputs z. One tick adds a variance of at most
    (max a − min a)²/4, whatever the truth. Two states need one count only: its weights are 0 and 1/(1−ρ0−ρ1).
    """
    weights = [[0.0, 1 / (1 - noise.rho0 - noise.rho1)]] if isinstance(noise, Noise) else inverse(noise)
    return max(
        math.sqrt(states * (max(row) - min(row)) ** 2 / 4 + 2 * scale**2 * sum(a * a for a in row)) / states
        for row in weights
    )


def inverse(emission: Rows) -> list[list[float]]:
    """Rows a_x with Σ_z emission[u][z]·a_x[z] = 1 for u = x and 0 for other states: the transposed inverse."""
    k = len(emission)
    rows = [[*row, *(float(u == x) for x in range(k))] for u, row in enumerate(emission)]
    for step in range(k):
        pivot = max(range(step, k), key=lambda u: abs(rows[u][step]))
        rows[step], rows[pivot] = rows[pivot], rows[step]
        top = rows[step][step]
        if top == 0.0:
            raise Problem("the noise in force mixes states so that they cannot be told apart")
        rows[step] = [value / top for value in rows[step]]
        for u in range(k):
            if u != step and rows[u][step]:
                factor = rows[u][step]
                rows[u] = [value - factor * other for value, other in zip(rows[u], rows[step], strict=True)]
    return [[rows[z][k + x] for z in range(k)] for x in range(k)]
