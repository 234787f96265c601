"""Growth laws: the exponent b of time ≈ a·size^b, fitted over the sizes that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import linear_regression

from hushmq.evaluation.benchmarks.benchmark_row import Row

LEAST_SIZES = 3
"""With fewer sizes there is no law to be seen."""


def exponent(seconds: Mapping[int, float]) -> float:
    """The least-squares slope of log time over log size; ValueError for fewer than three sizes."""
    if len(seconds) < LEAST_SIZES:
        raise ValueError(f"{len(seconds)} sizes were measured; a growth law takes at least {LEAST_SIZES}")
    sizes, times = zip(*seconds.items(), strict=True)
    return linear_regression([math.log(one) for one in sizes], [math.log(one) for one in times]).slope


def growth_row(name: str, seconds: Mapping[int, float], *, aim: str = "") -> Row:
    """The exponent, beside the sizes and times it was fitted to."""
    measured = ", ".join(f"{size:,}: {1000 * time:,.4g} ms" for size, time in seconds.items())
    return Row(f"{name}: growth", exponent(seconds), "exponent", measured, None, aim)
