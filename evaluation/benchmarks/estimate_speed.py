"""Re-estimating a cohort of 1,000 devices × 20,000 samples: from raw arrays, and from the sums that are kept anyway.

Of two states, and from the sums alone of three and four, and of chains with hidden regimes.

The other side is the full likelihood: hmmlearn's Baum–Welch with the emissions held fixed, one device after the other,
timed on a few devices and multiplied. Best of several rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from hmmlearn.hmm import CategoricalHMM

from hushmq.calibrator.models.binary.binary_fit import fit
from hushmq.calibrator.models.binary.binary_region import device_regions
from hushmq.calibrator.models.categorical import categorical_fit as estimate_k
from hushmq.calibrator.models.categorical import categorical_region as region_k
from hushmq.calibrator.models.categorical.categorical_moments import transitions
from hushmq.calibrator.models.regime import regime_fit as estimate_r
from hushmq.calibrator.models.regime import regime_region as region_r
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.estimation import sanitized_categorical as sanitized_k
from hushmq.evaluation.estimation import sanitized_regimes as sanitized_r
from hushmq.evaluation.estimation.categorical_coverage import FOUR, THREE, CategoricalScenario, Floats
from hushmq.evaluation.estimation.regime_coverage import DAY, SLEEPERS, chain_of
from hushmq.evaluation.estimation.sanitized_binary import LearningCharge, counted, evidence, sanitized
from hushmq.pufferfish.binary.binary_noise import BinaryNoise

T = TypeVar("T")

DEVICES, TICKS = 1_000, 20_000
SAMPLED = 3
NOISE = BinaryNoise(0.42, 0.4)
CHARGE = LearningCharge(tilt=0.47, draws=1)


def timed(work: Callable[[], T], rounds: int) -> tuple[float, T]:
    """The processor time of the shortest of several rounds in seconds, and the last result."""
    best = float("inf")
    for _ in range(rounds):
        started = time.process_time()
        result = work()
        best = min(best, time.process_time() - started)
    return best, result


def likelihood(states: np.ndarray[tuple[int], np.dtype[np.uint8]], emission: Floats) -> None:
    """Baum–Welch for the transitions of one device."""
    k = len(emission)
    model = CategoricalHMM(k, init_params="", params="t", n_iter=50, tol=1e-2)
    model.startprob_ = np.full(k, 1 / k)
    model.transmat_ = np.full((k, k), 0.2 / (k - 1)) + (0.8 - 0.2 / (k - 1)) * np.eye(k)
    model.emissionprob_ = emission
    model.fit(states.reshape(-1, 1).astype(np.int64))


def more_states(chain: Floats) -> Row:
    """The row for the number of states of the chain."""
    rng = np.random.default_rng(1)
    setting = CategoricalScenario("devices", chain, epsilon=8, update=1, spread=0.3, devices=DEVICES)
    k, emission = len(chain), setting.emission
    P = transitions(setting.chains(DEVICES, rng), k)
    states = sanitized_k.sanitized(P, emission, ticks=TICKS, rng=rng)
    slow, _ = timed(lambda: likelihood(states[0], emission), 1)
    seen = sanitized_k.evidence([states], emission, scale=setting.scale, draws=1, rng=rng)

    def regions() -> int:
        found = estimate_k.fit(seen)
        return 0 if found is None else len(region_k.device_regions(found))

    regions()
    fitting, _ = timed(regions, 3)
    against = f"hmmlearn, 1 device × {DEVICES}"
    return Row(f"the same of {k} states", fitting * 1000, "ms", against, slow * DEVICES / fitting, "≤ 50 ms")


def hidden_regimes() -> Row:
    """The row for chains with regimes, those of the sleepers, every thirtieth tick of a day."""
    rng = np.random.default_rng(1)
    chains = [chain_of(SLEEPERS[number % len(SLEEPERS)]) for number in range(DEVICES)]
    states = sanitized_r.sanitized(chains, NOISE, stride=30, count=DAY // 30, rng=rng)
    sums = sanitized_r.counted(states, stride=30, window=DAY)
    seen = sanitized_r.evidence(sums, NOISE, charge=CHARGE, rng=rng)

    def regions() -> int:
        found = estimate_r.fit(seen)
        return 0 if found is None else len(region_r.device_regions(found))

    regions()
    fitting, _ = timed(regions, 3)
    return Row("the same with hidden regimes", fitting * 1000, "ms", aim="≤ 1000 ms")


def run() -> list[Row]:
    """Both ways of re-estimating, and what the sums cost to keep."""
    rng = np.random.default_rng(1)
    q, r = rng.uniform(0.05, 0.3, DEVICES), rng.uniform(0.08, 0.35, DEVICES)
    packed = sanitized(q, r, NOISE, ticks=TICKS, rng=rng)
    states = np.unpackbits(packed[:SAMPLED], axis=1, bitorder="little", count=TICKS)

    def one_by_one() -> None:
        for one in states:
            likelihood(one, emission)

    emission = np.array([[1 - NOISE.rho0, NOISE.rho0], [NOISE.rho1, 1 - NOISE.rho1]])
    slow, _ = timed(one_by_one, 1)
    slow *= DEVICES / SAMPLED
    against = f"hmmlearn, {SAMPLED} devices × {DEVICES // SAMPLED}"
    counting, sums = timed(lambda: counted(packed, ticks=TICKS), 2)
    seen = evidence(sums, NOISE, charge=CHARGE, rng=rng)

    def regions() -> int:
        found = fit(seen)
        return 0 if found is None else len(device_regions(found))

    regions()  # the tables of λ are made once
    fitting, _ = timed(regions, 7)
    return [
        Row(
            "1,000 devices × 20,000 samples, raw arrays",
            counting + fitting,
            "s",
            against,
            slow / (counting + fitting),
            "≤ 5 s",
        ),
        Row("the same from streaming statistics", fitting * 1000, "ms", against, slow / fitting, "≤ 50 ms"),
        more_states(THREE),
        more_states(FOUR),
        hidden_regimes(),
        Row("counting, per sample", counting / DEVICES / TICKS * 1e9, "ns"),
    ]
