"""What is counted for learning: per device, noise version and window, the ones and the changes over bands of lags.

With Z the sanitized states, `changes` of a band (a … b) is Σ_{h=a}^{b} Σ_t [Z_t ≠ Z_{t+h}]. Flipping one state moves
`ones` by 1 and every lag's changes by at most 2, so those of a band of w lags by 2w. To these reaches the noise is cut
(pufferfish/noise/joint_noise.py): a band costs no more than a single lag would, and averages over all its lags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hushmq.calibrator.models.lag_bands import BANDS, WIDTHS

REACH = (1, *(2 * width for width in WIDTHS))
"""The most that one sanitized state moves `ones` and each band's changes."""


@dataclass(slots=True)
class BinarySums:
    """Exact sums of sanitized states under one noise version. Secret until noise is added.

    `starts` of a band: the ticks t from which all its lags could be counted; its pairs are starts × lags.
    """

    ticks: int = 0
    ones: int = field(default=0, repr=False)
    starts: list[int] = field(default_factory=lambda: [0] * len(BANDS))
    changes: list[int] = field(default_factory=lambda: [0] * len(BANDS), repr=False)

    @property
    def groups(self) -> list[list[int]]:
        """What noise is drawn for: the ones, then each band's changes."""
        return [[self.ones], *([one] for one in self.changes)]

    def add(self, states: bytes) -> None:
        """Count one run of consecutive ticks, one byte per state."""
        packed = np.packbits(np.frombuffer(states, dtype=np.uint8), bitorder="little")
        self.add_packed(packed.tobytes(), len(states))

    def add_packed(self, packed: bytes, length: int) -> None:
        """Count one run of consecutive ticks, one bit per state, the first in the lowest bit.

        The run is one integer; a lag is a shift, an exclusive or and a count of bits.
        """
        bits = int.from_bytes(packed, "little")
        self.ticks += length
        self.ones += bits.bit_count()
        for band, (first, last) in enumerate(BANDS):
            starts = length - last
            if starts <= 0:
                break
            mask = (1 << starts) - 1
            self.starts[band] += starts
            self.changes[band] += sum(
                ((bits ^ bits >> lag) & mask).bit_count() for lag in range(first, last + 1)
            )


def sums_of(runs: Sequence[bytes]) -> list[BinarySums]:
    """The sums of each of many runs of one length: those of `BinarySums.add`, 64 ticks to a word."""
    length = len(runs[0])
    words = -(-length // 64) + 1  # an empty one behind, so that every word has a next one
    states = np.zeros((len(runs), words * 64), dtype=np.uint8)
    states[:, :length] = np.frombuffer(b"".join(runs), dtype=np.uint8).reshape(len(runs), length)
    bits = np.packbits(states, axis=-1, bitorder="little").view("<u8")
    ones = np.bitwise_count(bits).sum(axis=-1, dtype=np.int64).tolist()
    starts = [max(0, length - last) for _, last in BANDS]
    changes = np.zeros((len(runs), len(BANDS)), dtype=np.int64)
    for band, (first, last) in enumerate(BANDS):
        used = -(-starts[band] // 64)
        if not used:
            break
        mask = np.full(used, ~np.uint64(0))
        mask[-1] >>= np.uint64(used * 64 - starts[band])
        for lag in range(first, last + 1):
            moved = bits[:, :used] >> np.uint64(lag) | bits[:, 1 : used + 1] << np.uint64(64 - lag)
            changes[:, band] += np.bitwise_count((bits[:, :used] ^ moved) & mask).sum(axis=-1, dtype=np.int64)
    return [
        BinarySums(length, one, list(starts), row) for one, row in zip(ones, changes.tolist(), strict=True)
    ]
