"""From a sample to a packed batch, for two states and for four; checking a setting against finding it."""

from __future__ import annotations

import os
import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate

from hushmq.agent.accept_settings import Trust, check_noise
from hushmq.agent.discretise import Discretiser, discretiser
from hushmq.agent.perturb import Mechanism
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import (
    BinaryNoiseMessage,
    CategoricalNoiseMessage,
    CertificateMessage,
)
from hushmq.broker.contract.policy_message import Assumption, Audiences, Bins, StreamPolicy, Threshold
from hushmq.broker.contract.theta_message import CategoricalThetaMessage, theta_message
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise
from hushmq.pufferfish.categorical.contraction import largest_tilt
from hushmq.pufferfish.categorical.emission import randomized_response
from hushmq.pufferfish.noise.perturber import threshold, word_counts

COUNT = 50_000
EDGES = (65.0, 75.0, 85.0)


def run() -> Iterator[Row]:
    yield from _sample_to_batch()
    yield _settings()


def _sample_to_batch() -> list[Row]:
    """Numbers in, encoded batches of 100 out, against the bare comparison of os.urandom words with thresholds."""
    values = [random.uniform(60.0, 90.0) for _ in range(COUNT)]
    below = (threshold(0.3), threshold(0.3))
    bits = [int(value >= 75.0) for value in values]

    def bare_two() -> list[int]:
        return [state ^ (word < below[state]) for state, word in zip(bits, _words(), strict=True)]

    bounds = [list(accumulate(row))[:-1] for row in word_counts(randomized_response(4, 1.0))]
    states = [bisect_right(EDGES, value) for value in values]

    def bare_four() -> list[int]:
        return [bisect_right(bounds[state], word) for state, word in zip(states, _words(), strict=True)]

    rows = []
    for name, (policy, setting), bare in (
        ("sample to packed batch", _two_states(), bare_two),
        ("sample to packed batch, 4 states", _four_states(), bare_four),
    ):
        ours = partial(_batches, values, discretiser(policy), Mechanism(setting))
        mine, theirs = (COUNT / _best(call) for call in (ours, bare))
        against = f"bare os.urandom comparison, {theirs:,.0f}/s"
        rows.append(Row(name, mine, "samples/s", against, mine / theirs, "≥ 150,000/s"))
    return rows


def _settings() -> Row:
    """A pushed setting of four states checked as the device does it, against the search that found it."""
    policy, setting = _four_states()
    trust = Trust((), (), epsilon_max=4.0, rho_min=0.001)
    check = _best(lambda: check_noise(setting, policy, trust))
    search = _best(lambda: largest_tilt(_theta().chains, 4.0))
    against = f"the search that found it, {search * 1000:,.0f} ms"
    return Row("checking a setting of 4 states", check * 1000, "ms", against, check / search, "≤ 0.2×")


def _words() -> memoryview:
    return memoryview(os.urandom(8 * COUNT)).cast("Q")


def _batches(values: list[float], discretise: Discretiser, mechanism: Mechanism) -> None:
    for first in range(0, len(values), 100):
        mechanism.batches("motion", first, discretise.states(values[first : first + 100]), None)


def _best(call: Callable[[], object], times: int = 5) -> float:
    """The shortest of several runs, in seconds of this process."""
    found = []
    for _ in range(times):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def _two_states() -> tuple[StreamPolicy, NoiseSetting]:
    chains = BinaryTheta(0.05, 0.5, 0.05, 0.5)
    best, theta = optimal_noise(chains, 2.0), theta_message(chains)
    policy = StreamPolicy(
        states=("low", "high"),
        period_ms=2,
        discretiser=Threshold(at=75.0, hysteresis=2.0),
        theta=Assumption(start=theta, floor=theta),
        epsilon=Audiences(operator=2.0, public=1.0),
        windows={},
    )
    noise = BinaryNoiseMessage(rho0=best.rho0, rho1=best.rho1)
    return policy, NoiseSetting(
        version=1, policy=1, cohort="bench", stream="motion", theta=theta, noise=noise
    )


def _theta() -> CategoricalThetaMessage:
    low, high = (
        tuple(tuple(stay if u == x else move for u in range(4)) for x in range(4))
        for stay, move in ((0.35, 0.1), (0.6, 0.25))
    )
    return CategoricalThetaMessage(low=low, high=high)


def _four_states() -> tuple[StreamPolicy, NoiseSetting]:
    theta = _theta()
    policy = StreamPolicy(
        states=("lying", "sitting", "walking", "running"),
        period_ms=2,
        discretiser=Bins(edges=EDGES, hysteresis=2.0),
        theta=Assumption(start=theta, floor=theta),
        adversary="prior",
        epsilon=Audiences(operator=4.0, public=2.0),
        windows={},
    )
    proof = largest_tilt(theta.chains, 4.0)
    noise = CategoricalNoiseMessage(
        emission=randomized_response(4, proof.tau), certificate=CertificateMessage.of(proof)
    )
    return policy, NoiseSetting(
        version=1, policy=1, cohort="bench", stream="motion", theta=theta, noise=noise
    )
