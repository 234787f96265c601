"""The ledger's unit: a tilt is a whole number of nano-nats, so that sums of tilts are exact."""

from __future__ import annotations

import math

NANO = 1_000_000_000
"""Nano-nats in a nat."""


def scale_for(sensitivity: int, tilt: int) -> float:
    """The Laplace scale at which this L1 sensitivity costs at most `tilt` nano-nats: rounded up, to more noise."""
    return math.nextafter(sensitivity * NANO / tilt, math.inf)
