"""The methods compared, under the papers' names, and the error of a histogram under each."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from hushmq.commands.chain_file import Chains
from hushmq.commands.scale_command import METHODS
from hushmq.evaluation.section_report import Cell
from hushmq.pufferfish.quilt.markov_chain import Chain

NAMES = {
    "group": "GroupDP",
    "gk16": "GK16",
    "mqm-approx": "MQMApprox",
    "mqm-exact": "MQMExact",
    "tilted-quilt": "tilted quilt",
}
"""The names of SWC section 5, and ours."""

DRAWN = ("tilted-quilt", "mqm-exact", "mqm-approx", "gk16")
"""The methods in figures; ours is first, so that it has the same colour in every figure."""


def scale_of(method: str, chains: Sequence[Chain], length: int | None, epsilon: float) -> float | None:
    """The Laplace scale of a 1-Lipschitz query; None if the method has no answer."""
    try:
        return METHODS[method](Chains(list(chains), length), epsilon).scale
    except ValueError:
        return None


def timed_scale(
    method: str, chains: Sequence[Chain], length: int | None, epsilon: float
) -> tuple[float | None, float]:
    """The scale, and its computation time in seconds of processor time."""
    begin = time.process_time()
    found = scale_of(method, chains, length, epsilon)
    return found, time.process_time() - begin


def simulated_error(
    scale: float | None, *, lipschitz: float, bins: int, draws: int, rng: np.random.Generator
) -> float | None:
    """The mean L1 error over `draws` draws of a vector of bins, each with Laplace noise of scale·lipschitz.

    Its expectation is bins·scale·lipschitz.
    """
    if scale is None:
        return None
    return float(np.abs(rng.laplace(0.0, scale * lipschitz, (draws, bins))).sum(axis=1).mean())


def ratio(a: float | None, b: float | None) -> Cell:
    """The quotient a/b, or an empty cell."""
    return None if a is None or b is None else a / b
