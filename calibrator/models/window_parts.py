"""A window whose ticks carry different noise: its parts, one for each noise version, and the frequencies of the whole.

The estimand is the share of each state among all counted ticks of the window. Given the true states, the noise is
independent between ticks. So a part's debiased shares are unbiased, and their variance is that of the noise alone.
The parts are weighted by pufferfish/inference/minimax_weights.py: by their ticks, their noise and the scale of the
release, never by what was counted. The standard error bounds the root mean square error, and the interval allows for
the bias: it contains the share with 95% probability whatever the states are, as far as sampling error is normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hushmq.pufferfish.inference.half_width import half_width
from hushmq.pufferfish.inference.minimax_weights import Weights, minimax_weights

DEVIATIONS = 2.0
"""The variance of a share is bounded for true shares within so many standard deviations of the estimate."""


@dataclass(frozen=True, slots=True)
class Part:
    """The ticks of one noise version: the debiased share of each state, or weighted sums of these, with variances.

    The noise on samples adds `sampling` to a share's variance, or `most` where all ticks are in the worst state for it;
    the noise drawn for the release adds `drawn`.
    """

    ticks: int
    shares: Sequence[float]
    sampling: Sequence[float]
    most: Sequence[float]
    drawn: Sequence[float]

    def cautious(self, state: int) -> float:
        """The sampling variance if the share of the worst state is larger by DEVIATIONS standard deviations."""
        sampling = self.sampling[state]
        off = min(1.0, DEVIATIONS * math.sqrt(sampling + self.drawn[state]))
        return sampling + off * (self.most[state] - sampling)

    @property
    def worst(self) -> float:
        """The largest variance of any state's share, whatever the true states are."""
        return max(most + drawn for most, drawn in zip(self.most, self.drawn, strict=True))


@dataclass(frozen=True, slots=True)
class Whole:
    """The share of each state in all parts together, and the largest bias of one."""

    frequencies: tuple[float, ...]
    standard_errors: tuple[float, ...]
    half_widths: tuple[float, ...]
    bias: float


def whole(parts: Sequence[Part], sums: Sequence[Part] = ()) -> tuple[Whole, Whole]:
    """Frequencies of all parts together, with a bound of their root mean square error, and half widths.

    Beside them the same for `sums`, whose columns are weighted sums of shares with weights in a range of one.
    """
    weights = minimax_weights([part.ticks for part in parts], [part.worst for part in parts])
    return _weighted(weights, parts), _weighted(weights, sums)


def _weighted(weights: Weights, parts: Sequence[Part]) -> Whole:
    weighted = list(zip(weights.each, parts, strict=True)) if parts else []
    columns = range(len(parts[0].shares) if parts else 0)
    sampling = [sum(a**2 * part.cautious(j) for a, part in weighted) for j in columns]
    drawn = [sum(a**2 * part.drawn[j] for a, part in weighted) for j in columns]
    return Whole(
        tuple(sum(a * part.shares[j] for a, part in weighted) for j in columns),
        tuple(math.sqrt(weights.bias**2 + sampling[j] + drawn[j]) for j in columns),
        tuple(half_width(sampling[j], drawn[j], bias=weights.bias) for j in columns),
        weights.bias,
    )
