"""A window of two states: its ones and changes, the statistics and the histogram drawn from them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlalchemy import Connection

from calibrator import learn
from calibrator.charge import scale_for
from calibrator.histogram import Histogram, Pieces
from calibrator.kind import AnyNoise
from calibrator.learn_two import TWO, Statistic
from calibrator.noise import noisy, variance
from calibrator.statistics import BANDS, COARSENESS, WIDTHS, Sums, bands_within, runs, sensitivity
from pufferfish.binary import Noise
from pufferfish.half_width import half_width


class CountTwo:
    """Sums by device and noise version."""

    def __init__(self, pieces: Pieces) -> None:
        self._sums: dict[tuple[str, int], Sums] = {}
        for key, found in pieces.items():
            self._sums[key] = Sums()
            for run in runs(sorted(found)):
                self._sums[key].add(run)

    @property
    def devices(self) -> list[str]:
        return sorted({device for device, _ in self._sums})

    def learn(self, db: Connection, stream: str, *, ticks: int, tilt: int) -> None:
        """Add the charged noise, a band's as much wider as the band is, and hand the statistics to learning."""
        scale = scale_for(sensitivity(ticks), tilt)
        members = list(self._sums.items())
        ones = noisy([one.ones for _, one in members], scale=scale)
        changes = [
            noisy([one.changes[band] for _, one in members], scale=scale * WIDTHS[band] * COARSENESS[band])
            if band < bands_within(ticks)
            else [0] * len(members)
            for band in range(len(BANDS))
        ]
        learn.note(
            db,
            stream,
            [
                Statistic(
                    device, version, one.ticks, ones[index], one.starts, [each[index] for each in changes]
                )
                for index, ((device, version), one) in enumerate(members)
            ],
            variance=variance(scale),
            learner=TWO,
        )

    def histogram(self, noises: Mapping[int, AnyNoise], *, tilt: int, device: str | None = None) -> Histogram:
        """The noisy count and its debiased frequencies.

        Each noise version's states are counted apart, with noise of their own: the counts are of disjoint states,
        so one state still costs 1/scale, and so it does where each device has a histogram of its own. The second
        bin is the rest of a total that is no secret.
        """
        scale = scale_for(1, tilt)
        sums = {key: one for key, one in self._sums.items() if device in {None, key[0]}}
        versions = sorted({version for _, version in sums})
        ticks = {v: sum(one.ticks for (_, version), one in sums.items() if version == v) for v in versions}
        ones = noisy(
            [sum(one.ones for (_, version), one in sums.items() if version == v) for v in versions],
            scale=scale,
        )
        total = sum(ticks.values())
        # x̂ = Σ (ones − n·ρ0)/s, with variance Σ (n·p(1−p) + noise)/s²
        estimate = sampling = drawn = 0.0
        for version, count in zip(versions, ones, strict=True):
            noise, n = noises[version], ticks[version]
            if not isinstance(noise, Noise):
                raise TypeError("the noise of a stream of two states is (ρ0, ρ1)")
            s = 1 - noise.rho0 - noise.rho1
            p = min(1.0, max(0.0, count / n))
            estimate += (count - n * noise.rho0) / s
            sampling += n * p * (1 - p) / s**2
            drawn += variance(scale) / s**2
        frequency, error = estimate / total, math.sqrt(sampling + drawn) / total
        off = half_width(sampling, drawn) / total
        return Histogram(
            devices=len({key[0] for key in sums}),
            ticks=total,
            counts=(total - sum(ones), sum(ones)),
            frequencies=(1 - frequency, frequency),
            standard_errors=(error, error),
            half_widths=(off, off),
            scale=scale,
        )
