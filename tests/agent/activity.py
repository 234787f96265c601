"""A stream of four states for the agent's tests: its policy, and the noise that a calibrator would push."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import CategoricalNoiseMessage, CertificateMessage
from hushmq.broker.contract.policy_message import Assumption, Audiences, Labels, Policy
from hushmq.broker.contract.theta_message import CategoricalThetaMessage
from hushmq.pufferfish.categorical import contraction
from hushmq.pufferfish.categorical.emission import randomized_response
from tests.agent.peer import policy

MARK = b"-marked"
"""A marker in the name of every state, and in nothing else: no tick and no base64 text can contain it by chance."""
STATES = ("lying-marked", "sitting-marked", "walking-marked", "running-marked")
CHAIN = ((0.42, 0.2, 0.2, 0.18), (0.18, 0.44, 0.19, 0.19), (0.2, 0.18, 0.42, 0.2), (0.2, 0.2, 0.2, 0.4))


def theta_of_four(stay: tuple[float, float], move: tuple[float, float]) -> CategoricalThetaMessage:
    """Return the Θ of chains whose probabilities to stay, and to move to each other state, are within these bounds."""
    low, high = (
        tuple(tuple(stay[end] if u == x else move[end] for u in range(4)) for x in range(4)) for end in (0, 1)
    )
    return CategoricalThetaMessage(low=low, high=high)


START = theta_of_four((0.35, 0.6), (0.1, 0.25))
FLOOR = theta_of_four((0.4, 0.45), (0.15, 0.22))


def activity_policy(version: int = 1, **changes: Any) -> Policy:
    fields: dict[str, Any] = {
        "states": STATES,
        "discretiser": Labels(),
        "theta": Assumption(start=START, floor=FLOOR),
        "adversary": "prior",
        "epsilon": Audiences(operator=4.0, public=2.0),
    }
    return policy(version, **(fields | changes))


@lru_cache
def best_proof(theta: CategoricalThetaMessage, epsilon: float) -> contraction.Certificate:
    return contraction.largest_tilt(theta.chains, epsilon)


def emission(theta: CategoricalThetaMessage, epsilon: float, windows: float = 0.0) -> CategoricalNoiseMessage:
    """Return the least randomized response within ε beside windows of this tilt, with its certificate."""
    proof = best_proof(theta, epsilon)
    return CategoricalNoiseMessage(
        emission=randomized_response(theta.k, proof.tau - windows), certificate=CertificateMessage.of(proof)
    )


def activity_noise(
    version: int = 1,
    *,
    theta: CategoricalThetaMessage = START,
    epsilon: float = 4.0,
    windows: float = 0.0,
    **changes: Any,
) -> NoiseSetting:
    fields: dict[str, Any] = {
        "version": version,
        "policy": 1,
        "cohort": "test",
        "stream": "motion",
        "theta": theta,
    }
    if "noise" not in changes:
        fields["noise"] = emission(theta, epsilon, windows)
    return NoiseSetting(**(fields | changes))


SIMULATED = f"""kind = "simulate-states"
transition = {[list(row) for row in CHAIN]}
values = {list(STATES)}
seed = 7
start_tick = {{start}}"""
