"""What is counted to learn regimes: per device, noise version and window, the ones and the changes over long bands.

With Z_1, Z_2, … the published sanitized states of a run, every m-th tick, the changes of a band are the sum over its
lags h, in published ticks, of Σ_t [Z_t ≠ Z_{t+h}], every lag counted from the same states. Flipping one state moves
`ones` by 1 and the changes of each lag by at most 2, once as a start and once as an end: those of a band by twice its
number of lags. The noise has the shape of these reaches (pufferfish/noise/joint_noise.py): the K-norm theorem of
docs/theory-accounts.md, A2, holds for any reaches, so a draw costs what it did with fewer and shorter bands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hushmq.calibrator.models.regime.long_bands import LONG_BANDS, strided_bands


@dataclass(slots=True)
class RegimeSums:
    """Exact sums of sanitized states under one noise version and stride. Secret until noise is added.

    `ticks` are published ones. `starts` of a band: the states from which all its lags could be counted.
    """

    stride: int = 1
    ticks: int = 0
    ones: int = field(default=0, repr=False)
    starts: list[int] = field(default_factory=lambda: [0] * len(LONG_BANDS))
    changes: list[int] = field(default_factory=lambda: [0] * len(LONG_BANDS), repr=False)

    @property
    def groups(self) -> list[list[int]]:
        """What noise is drawn for: the ones, then each band's changes."""
        return [[self.ones], *([one] for one in self.changes)]

    def add(self, states: bytes) -> None:
        """Count one run of consecutive published ticks, one byte per state.

        The changes of a start t are lags·Z_t + W − 2·Z_t·W, with W the ones among Z_{t+first} … Z_{t+last}: one
        difference of running sums, however many lags the band has.
        """
        bits = np.frombuffer(states, dtype=np.uint8).astype(np.int64)
        before = np.concatenate([[0], np.cumsum(bits)])
        self.ticks += len(bits)
        self.ones += int(before[-1])
        bands = strided_bands(self.stride)
        for band, (first, last, lags) in enumerate(zip(bands.first, bands.last, bands.lags, strict=True)):
            starts = len(bits) - last
            if not lags or starts <= 0:
                continue
            ahead = before[last + 1 : last + 1 + starts] - before[first : first + starts]
            here = bits[:starts]
            self.starts[band] += starts
            self.changes[band] += int((lags * here + ahead - 2 * here * ahead).sum())
