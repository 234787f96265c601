"""The error of a window's share against the stride, at one loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from hushmq.explain.figure import Curve, Figure, LabelledPoint, Panel
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.thinning.stride_search import Tried, least_error


class Strided(Protocol):
    """A stream whose error is known for several strides."""

    @property
    def in_words(self) -> str:
        """The options that gave it."""

    def strides(self, epsilon: float, adversary: Adversary) -> Sequence[Tried]:
        """The error of several strides, in order."""


def stride_figure(stream: Strided, epsilon: float, ticks: int, adversaries: Sequence[Adversary]) -> Figure:
    """One curve for each adversary, with its best stride marked."""
    curves, marks = [], []
    for adversary in adversaries:
        tried = stream.strides(epsilon, adversary)
        errors = [math.sqrt(one.variance / ticks) for one in tried]
        curves.append(Curve(f"{adversary} adversary", [one.stride for one in tried], errors, dots=True))
        best = least_error(tried)
        error = math.sqrt(best.variance / ticks)
        marks.append(LabelledPoint(f"{adversary}: {best.stride}, ±{error:.3g}", best.stride, error))
    panel = Panel(
        title=f"Error of a share in a window of {ticks} ticks at ε = {epsilon:g}",
        x_label="stride: of so many ticks one is published",
        y_label="standard error of one device's share",
        curves=curves,
        marks=marks,
        logarithmic="x",
    )
    return Figure(f"What publishing fewer ticks buys: {stream.in_words}", [panel])
