"""The regime attack: real recordings are fast chains inside slow regimes, and an attacker knows it.

The attacker has fitted two regimes to the raw recording. Before, noise was for the chain of neighbouring beats; the
calibrator now covers the correlation over lags up to 40 (`misfit = "cover"`), and a device that was given the chain of
neighbouring beats notices that its own states are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hushmq.evaluation.attackers.raw_regimes import Bits, fitted_regimes, moved_odds
from hushmq.evaluation.attacks.attack_outcome import AttackOutcome
from hushmq.evaluation.attacks.watched_states import Noticed, watched
from hushmq.evaluation.recordings import Recording, sleepers
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.sections.recorded_misfit import covering, sanitized
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise
from hushmq.pufferfish.regimes.product_tilt import product_loss
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

COVERED = 40
"""The calibrator measures misfit over lags up to this one."""
WIDTH = 1.1
"""The Θ that a device is given spans this factor around its chain, on either side."""


def attacks(job: Job) -> Iterator[AttackOutcome]:
    """N10 at several ε; in full, every sleeper at ε = 4. Missing where the recordings are missing."""
    known = sleepers(job)
    rounds, ticks = (15, 6000) if job.quick else (40, None)
    for recording in known:
        if recording.subject != "N10" and job.quick:
            continue
        bits = recording.states()[:ticks]
        chain = fitted_regimes([bits], rounds=rounds)
        for epsilon in (1.0, 2.0, 4.0) if recording.subject == "N10" else (4.0,):
            job.progress(0.5, f"regimes of {recording.subject}, ε = {epsilon:g}")
            yield _outcome(job, recording, bits, chain, epsilon)


def _outcome(job: Job, recording: Recording, bits: Bits, chain: RegimeChain, epsilon: float) -> AttackOutcome:
    old, new = (optimal_noise(covering([bits], reach), epsilon) for reach in (1, COVERED))
    rng = job.rng("regimes", recording.subject, epsilon)
    every = np.ones(len(bits), dtype=bool)
    moved = [
        np.abs(moved_odds(chain, sanitized(bits, noise, rng), every, noise)).max() for noise in (old, new)
    ]
    noticed = noticed_under_neighbours(bits)
    watch = "not noticed" if noticed.warned is None else f"warned after {noticed.warned} beats"
    certain = "exact" if chain.is_mtp2 else "at least"
    return AttackOutcome(
        "regimes",
        f"heart rate {recording.subject}, {len(bits)} beats",
        epsilon,
        product_loss(chain, old.tau0, old.tau1),
        product_loss(chain, new.tau0, new.tau1),
        f"{certain}, prior adversary, two fitted regimes; on the recording the odds moved by {moved[0]:.2f} and "
        f"{moved[1]:.2f}",
        f"noise covers lags to {COVERED}, signal {old.signal:.3f} → {new.signal:.4f}; a device whose Θ is the chain of "
        f"lag 1: {watch}",
    )


def noticed_under_neighbours(bits: Bits) -> Noticed:
    """When a device notices that its states are not in a Θ around the chain of neighbouring beats."""
    chain = covering([bits], 1)
    theta = BinaryTheta(
        chain.q_low / WIDTH,
        min(chain.q_low * WIDTH, 0.99),
        chain.r_low / WIDTH,
        min(chain.r_low * WIDTH, 0.99),
    )
    return watched(theta, bits)
