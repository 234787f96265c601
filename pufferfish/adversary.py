"""The adversaries against whom a loss is computed, and the argument checks of all pricing functions."""

from __future__ import annotations

import math
from typing import Literal, get_args

Adversary = Literal["prior", "informed", "undecided"]
"""`prior` knows the chain; `informed` also the states at any other instants; `undecided` knows Θ, and not the chain."""
ADVERSARIES: tuple[Adversary, ...] = get_args(Adversary)


def check_tilts(tau0: float, tau1: float) -> None:
    """Raises ValueError for a tilt that is negative, infinite or not a number."""
    for name, tau in (("tau0", tau0), ("tau1", tau1)):
        if not (0.0 <= tau < math.inf):
            raise ValueError(f"{name} is {tau!r}; a tilt is a finite number of nats, 0 or more")


def check_adversary(adversary: str) -> None:
    """Raises ValueError for an unknown adversary."""
    if adversary not in ADVERSARIES:
        raise ValueError(f"adversary is {adversary!r}; it is 'prior', 'informed' or 'undecided'")
