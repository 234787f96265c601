"""Exact discrete Laplace noise on integers, drawn by OpenDP from the operating system's generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_laplace
from opendp.metrics import l1_distance
from opendp.mod import enable_features

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


def variance(scale: float) -> float:
    """The variance of discrete Laplace noise, 2p/(1−p)² with p = e^(−1/scale)."""
    p = math.exp(-1 / scale)
    return 2 * p / (1 - p) ** 2
