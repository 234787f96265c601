"""A window of two states: its ones and changes, the statistics and the histogram drawn from them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from hushmq.calibrator.learning import learn_window as learn
from hushmq.calibrator.learning.pending_statistics import Counted
from hushmq.calibrator.ledger.audience_timelines import scale_for
from hushmq.calibrator.models.binary.binary_statistics import Sums, runs
from hushmq.calibrator.models.binary_model import TWO
from hushmq.calibrator.models.chain_model import AnyNoise
from hushmq.calibrator.models.draw_noise import noisy, variance
from hushmq.calibrator.models.histogram import Histogram, Pieces
from hushmq.calibrator.models.window_parts import Part, whole
from hushmq.pufferfish.binary.stream_loss import Noise


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

    def learn(self, db: Connection, stream: str, *, tilt: int) -> None:
        """Hand the sums to learning, which draws their noise when it next looks."""
        learn.note(
            db,
            stream,
            [
                Counted(device, version, one.ticks, one.starts, one.groups)
                for (device, version), one in self._sums.items()
            ],
            tilt=tilt,
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
        found = whole(
            [_part(noises[v], ticks[v], count, scale) for v, count in zip(versions, ones, strict=True)]
        )
        return Histogram(
            devices=len({key[0] for key in sums}),
            ticks=total,
            counts=(total - sum(ones), sum(ones)),
            frequencies=found.frequencies,
            standard_errors=found.standard_errors,
            half_widths=found.half_widths,
            scale=scale,
        )


def _part(noise: AnyNoise, ticks: int, ones: int, scale: float) -> Part:
    """The share of ones is f = (p − ρ0)/s, where p of the sanitized states are ones.

    Given the true states, a sanitized one has variance ρ0(1−ρ0) in state 0 and ρ0(1−ρ0) + s·(ρ1−ρ0) in state 1: on
    average ρ0(1−ρ0) + (p−ρ0)·(ρ1−ρ0), where p cannot be outside of [ρ0, 1−ρ1].
    """
    if not isinstance(noise, Noise):
        raise TypeError("the noise of a stream of two states is (ρ0, ρ1)")
    rho0, rho1 = noise.rho0, noise.rho1
    s = 1 - rho0 - rho1
    possible = min(1 - rho1, max(rho0, ones / ticks))
    share = (ones / ticks - rho0) / s
    sampling = (rho0 * (1 - rho0) + (possible - rho0) * (rho1 - rho0)) / (ticks * s**2)
    most = max(rho0 * (1 - rho0), rho1 * (1 - rho1)) / (ticks * s**2)
    drawn = variance(scale) / (ticks * s) ** 2
    return Part(ticks, (1 - share, share), (sampling,) * 2, (most,) * 2, (drawn,) * 2)
