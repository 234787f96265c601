"""The methods that choose a window's noise: the largest constant tilt with a loss of at most ε.

Releases over tumbling windows, with all noisy statistics of the same ticks, are one query that a tick changes by at
most its tilt τ. Each method gives a τ with a loss of at most ε for every chain of Θ:
pufferfish/binary/binary_window.py for two states, pufferfish/categorical/categorical_window.py for more. The method
determines how much noise is added, not what is charged: the ledger prices every release by its timeline.
"""

from __future__ import annotations

from typing import Literal, get_args

from hushmq.pufferfish.adversary import Adversary

Method = Literal["least-noise", "tilted-quilt", "mqm-exact", "mqm-approx"]
"""`least-noise` is the valid method with the largest tilt: for two states always `tilted-quilt`.

The choice depends on Θ only, which was learned from charged statistics, and not on the data.
"""
METHODS: tuple[Method, ...] = get_args(Method)


def adversary_error(method: Method, adversary: Adversary) -> str | None:
    """Why the method is invalid against this adversary for every Θ; None if it is valid."""
    if method in {"least-noise", "tilted-quilt"} or adversary != "informed":
        return None
    return f"{method} holds for the prior and the undecided adversary, not for the {adversary} one: use tilted-quilt"


def stride_error(method: Method) -> str | None:
    """Why the method is invalid for a stream that publishes one of several ticks; None if it is valid."""
    if method in {"least-noise", "tilted-quilt"}:
        return None
    return f"{method} is for streams that publish every tick: use tilted-quilt, or a stride of 1"
