"""A window of two states: the noisy count of ones, debiased."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from hushmq.calibrator.models.binary.binary_statistics import BinarySums, sums_of
from hushmq.calibrator.models.draw_noise import noisy, variance
from hushmq.calibrator.models.window_count import DrawnCounts, Pieces, Rows, WindowCount, summed_by_length
from hushmq.calibrator.models.window_parts import Part
from hushmq.calibrator.policy.nano_nats import scale_for
from hushmq.pufferfish.binary.binary_noise import BinaryNoise


def count_binary(pieces: Pieces) -> WindowCount[BinarySums, BinaryNoise]:
    """Count the states of one window, exactly."""
    return WindowCount(pieces, lambda each: summed_by_length(each, BinarySums, sums_of), draw_ones)


class CountedOnes(Protocol):
    """What a histogram needs of sums over states."""

    @property
    def ticks(self) -> int:
        """How many states."""

    @property
    def ones(self) -> int:
        """How many of them are 1."""


def draw_ones(
    histograms: Sequence[Mapping[int, Sequence[CountedOnes]]],
    noises: Mapping[int, BinaryNoise],
    tilt: int,
    rows: Rows = (),
) -> list[DrawnCounts]:
    """Draw the noise on the count of ones of each histogram.

    Changing one state changes that count by one, which costs 1/scale. The count of zeros is what remains of the number
    of ticks, which is no secret.
    """
    scale = scale_for(1, tilt)
    off = variance(scale)
    exact = [sum(one.ones for one in each) for sums in histograms for each in sums.values()]
    ones = iter(noisy(exact, scale=scale))
    found = [_drawn(sums, noises, ones, scale, off) for sums in histograms]
    if not rows:
        return found
    return [replace(one, sums=[_weighted(part, rows) for part in one.parts]) for one in found]


def _drawn(
    sums: Mapping[int, Sequence[CountedOnes]],
    noises: Mapping[int, BinaryNoise],
    ones: Iterator[int],
    scale: float,
    off: float,
) -> DrawnCounts:
    """The next of the noisy counts as one histogram; `off` is their variance."""
    parts, zeros, total = [], 0, 0
    for version, each in sums.items():
        ticks, count = sum(one.ticks for one in each), next(ones)
        parts.append(_part(noises[version], ticks, count, off))
        zeros, total = zeros + ticks - count, total + count
    return DrawnCounts((zeros, total), parts, scale)


def _weighted(part: Part, rows: Rows) -> Part:
    """Sums a·(1−f) + b·f = a + (b−a)·f: their errors are those of f, times b−a."""
    (_, share), squares = part.shares, [(b - a) ** 2 for a, b in rows]
    return Part(
        part.ticks,
        [a + (b - a) * share for a, b in rows],
        [part.sampling[1] * one for one in squares],
        [part.most[1] * one for one in squares],
        [part.drawn[1] * one for one in squares],
    )


def _part(noise: BinaryNoise, ticks: int, ones: int, off: float) -> Part:
    """The share of ones is f = (p − ρ0)/s, where p of the sanitized states are ones.

    Given the true states, a sanitized one has variance ρ0(1−ρ0) in state 0 and ρ0(1−ρ0) + s·(ρ1−ρ0) in state 1: on
    average ρ0(1−ρ0) + (p−ρ0)·(ρ1−ρ0), where p cannot be outside of [ρ0, 1−ρ1].
    """
    rho0, rho1 = noise.rho0, noise.rho1
    s = 1 - rho0 - rho1
    possible = min(1 - rho1, max(rho0, ones / ticks))
    share = (ones / ticks - rho0) / s
    sampling = (rho0 * (1 - rho0) + (possible - rho0) * (rho1 - rho0)) / (ticks * s**2)
    most = max(rho0 * (1 - rho0), rho1 * (1 - rho1)) / (ticks * s**2)
    drawn = off / (ticks * s) ** 2
    return Part(ticks, (1 - share, share), (sampling,) * 2, (most,) * 2, (drawn,) * 2)
