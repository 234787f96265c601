"""The mixture attack: an adversary undecided between two chains of Θ reads a stream, and learns which one it is.

Before, a price held for each chain alone and nobody was told of this. Now a policy may ask for the undecided adversary:
it is refused where the odds spread of Θ alone exceeds ε, and its noise keeps ε otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from pydantic import ValidationError

from hushmq.broker.contract.policy_message import Assumption, Audiences, StreamPolicy, Threshold
from hushmq.broker.contract.theta_message import theta_message
from hushmq.evaluation.attackers.forward_backward import posteriors
from hushmq.evaluation.attackers.hidden import Floats, Hidden, States
from hushmq.evaluation.attacks.attack_outcome import ERROR, AttackOutcome
from hushmq.evaluation.section_list import Job
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise
from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound

README = BinaryTheta(0.05, 0.45, 0.05, 0.45)
CHAINS = ((0.05, 0.45), (0.45, 0.05))
NARROW = BinaryTheta(0.2, 0.25, 0.2, 0.25)
EPSILON = 1.0


def attacks(job: Job) -> Iterator[AttackOutcome]:
    """README's Θ by simulated streams; a Θ with room for the undecided adversary by its worst transcript, exactly."""
    noise = optimal_noise(README, EPSILON, "informed")
    streams, ticks = (60, 12_000) if job.quick else (300, 15_000)
    moved = simulated(noise, streams, ticks, job.rng("mixture"))
    beyond = int((moved > EPSILON).sum())
    share = lower_confidence_bound(beyond, streams, ERROR)
    case = f"undecided between two corners of README's Θ, {ticks} ticks"
    median = float(np.median(moved))
    counted = f"median of {streams} streams; more than ε in {beyond}, that is in {share:.1%} or more"
    shown = README.constant_loss(*noise.tilts, "undecided")
    yield AttackOutcome(
        "mixture",
        f"{case}; a policy for the informed adversary, the default",
        EPSILON,
        median,
        median,
        counted,
        f"its ε is for what long-run habits do not tell; {shown:.3g} is shown beside it for who does not know them",
    )
    yield AttackOutcome(
        "mixture",
        f"{case}; a policy for the undecided adversary",
        EPSILON,
        median,
        None if refused(README, EPSILON) else median,
        counted,
        "the policy is refused: no noise keeps ε under so wide a Θ",
    )
    before, after = (
        worst_transcript(NARROW, optimal_noise(NARROW, EPSILON, adversary))
        for adversary in ("prior", "undecided")
    )
    yield AttackOutcome(
        "mixture",
        f"Θ {NARROW.in_brief()}, every mixture of two corners, worst transcript",
        EPSILON,
        before,
        after,
        "exact",
        "noise for the undecided adversary",
    )


def refused(theta: BinaryTheta, epsilon: float) -> bool:
    """Whether a policy for the undecided adversary is refused."""
    try:
        StreamPolicy(
            states=("low", "high"),
            period_ms=1000,
            discretiser=Threshold(at=0.0),
            theta=Assumption(start=theta_message(theta), floor=theta_message(theta)),
            adversary="undecided",
            epsilon=Audiences(operator=epsilon, public=epsilon),
            windows={},
        )
    except ValidationError as error:
        return "undecided adversary learns which chain" in str(error)
    return False


def simulated(noise: BinaryNoise, streams: int, ticks: int, rng: np.random.Generator) -> Floats:
    """By how much the log-odds of the middle tick move towards the truth's chain, in streams of either chain.

    Both chains are equally likely, and by symmetry so are both states.
    """
    hidden = [Hidden(q, r, noise) for q, r in CHAINS]
    moved = []
    for chain in hidden:
        outputs = chain.sanitize(chain.paths(streams // 2, ticks, rng), rng)
        weights = [likelihood(one, outputs) for one in hidden]
        first = 1.0 / (1.0 + np.exp(weights[1] - weights[0]))
        middle = [posteriors(one, outputs)[:, ticks // 2] for one in hidden]
        one = first * middle[0] + (1.0 - first) * middle[1]
        moved.append(np.abs(np.log(one / (1.0 - one))))
    return np.concatenate(moved)


def likelihood(hidden: Hidden, outputs: States) -> Floats:
    """The log-likelihood of each stream."""
    filtered = np.broadcast_to(hidden.stationary, (len(outputs), 2))
    total = np.zeros(len(outputs))
    for column in outputs.T:
        weighted = filtered * hidden.emission.T[column]
        sums = weighted.sum(axis=1)
        total += np.log(sums)
        filtered = (weighted / sums[:, None]) @ hidden.step
    return total


def worst_transcript(theta: BinaryTheta, noise: BinaryNoise, *, ticks: int = 4001) -> float:
    """The largest loss of a long constant transcript over all pairs of corners, with little mass on one of them."""
    corners = [(q, r) for q in (theta.q_low, theta.q_high) for r in (theta.r_low, theta.r_high)]
    sides = {
        (corner, state): constant_side(*corner, (noise.tau0, noise.tau1)[state], state, ticks // 2)
        for corner in corners
        for state in (0, 1)
    }
    found = 0.0
    for star in corners:
        for rest in corners:
            for state in (0, 1):
                tau = (noise.tau0, noise.tau1)[state]
                found = max(
                    found, mixture_loss(star, rest, sides[star, state], sides[rest, state], tau, state)
                )
    return found


Side = tuple[Floats, float]


def constant_side(q: float, r: float, tau: float, state: int, ticks: int) -> Side:
    """P(constant output of one side | state of the middle), up to a factor whose logarithm is returned too."""
    step = np.array([[1 - q, q], [r, 1 - r]])
    tilt = np.where(np.arange(2) == state, math.exp(tau), 1.0)
    side, scale = np.ones(2), 0.0
    for _ in range(ticks):
        side = step @ (tilt * side)
        scale += math.log(side.max())
        side = side / side.max()
    return side, scale


def mixture_loss(
    star: tuple[float, float], rest: tuple[float, float], own: Side, other: Side, tau: float, state: int
) -> float:
    """The loss towards `state` of a mixture of two chains, a millionth of it the first one."""
    mass = 1e-6
    laws = [np.array([r, q]) / (q + r) for q, r in (star, rest)]
    top = max(own[1], other[1])
    tilt = np.where(np.arange(2) == state, math.exp(tau), 1.0)
    joint = sum(
        weight * law * tilt * side**2 * math.exp(2 * (scale - top))
        for weight, law, (side, scale) in zip((mass, 1 - mass), laws, (own, other), strict=True)
    )
    prior = mass * laws[0] + (1 - mass) * laws[1]
    moved = np.log(joint) - np.log(prior)
    return float(moved[state] - moved[1 - state])
