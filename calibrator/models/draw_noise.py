"""Exact noise on integers, drawn from the operating system's generator, for many numbers at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.noise.joint_noise import draw_joint_noise


def noisy(counts: Sequence[int], *, scale: float) -> list[int]:
    """The counts, each with its own discrete Laplace noise P(k) ∝ e^(−|k|/scale).

    Changing the counts by L1 distance Δ changes the likelihood of the result by at most e^(Δ/scale): the
    Laplace mechanism.
    """
    from hushmq.pufferfish.noise.noise_arrays import discrete_laplace_array  # noqa: PLC0415  # numpy: at the first draw

    noise = discrete_laplace_array(Fraction(scale), len(counts)).tolist()
    return [count + off for count, off in zip(counts, noise, strict=True)]


def noisy_together(counts: Sequence[int], *, reach: Sequence[int], tilt: int) -> list[int]:
    """The counts with one draw for all: a change that moves each by at most its reach costs `tilt` nano-nats."""
    noise = draw_joint_noise(reach, Fraction(tilt, NANO))
    return [count + off for count, off in zip(counts, noise, strict=True)]


def variance(scale: float) -> float:
    """The variance of discrete Laplace noise, 2p/(1−p)² with p = e^(−1/scale)."""
    return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
