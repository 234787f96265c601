"""Exact noise on integers, drawn from the operating system's generator.

Discrete Laplace noise is OpenDP's; the one for numbers that a change may move all at once is
pufferfish/noise/joint_noise.py's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace
from opendp.metrics import l1_distance
from opendp.mod import enable_features

from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.noise.joint_noise import draw_joint_noise

enable_features("contrib")


def noisy(counts: Sequence[int], *, scale: float) -> list[int]:
    """The counts, each with its own discrete Laplace noise P(k) ∝ e^(−|k|/scale).

    Changing the counts by L1 distance Δ changes the likelihood of the result by at most e^(Δ/scale): the
    Laplace mechanism, whose proof for this sampler is OpenDP's.
    """
    return list(_mechanism(scale)([int(count) for count in counts]))


@lru_cache(maxsize=256)
def _mechanism(scale: float) -> Any:
    return make_laplace(vector_domain(atom_domain(T=int)), l1_distance(T=int), scale=scale)


def noisy_together(counts: Sequence[int], *, reach: Sequence[int], tilt: int) -> list[int]:
    """The counts with one draw for all: a change that moves each by at most its reach costs `tilt` nano-nats."""
    noise = draw_joint_noise(reach, Fraction(tilt, NANO))
    return [count + off for count, off in zip(counts, noise, strict=True)]


def variance(scale: float) -> float:
    """The variance of discrete Laplace noise, 2p/(1−p)² with p = e^(−1/scale)."""
    p = math.exp(-1 / scale)
    return 2 * p / (1 - p) ** 2
