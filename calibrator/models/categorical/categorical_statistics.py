"""What is counted for learning where there are more than two states: the states, and the pairs over bands of lags.

With Z the sanitized states, `pairs` of a band (a … b) is the k×k matrix Σ_{h=a}^{b} Σ_t [Z_t = u, Z_{t+h} = v].
Changing one state moves `counts` by 2 in all (one up, one down). At every lag the state is in at most two pairs, and
each of them moves by 2 in all: 4. The noise on a band of w lags has scale c·w·s where that on `counts` has scale s,
so the whole vector costs (2 + Σ 4/c)/s: the Laplace mechanism, on coordinates divided by 1, c·w, … (The noise of
calibrator/models/binary/binary_statistics.py grows with the number of coordinates; here they are too many for it.)

The bands are those of calibrator/models/lag_bands.py; starting ticks are counted as for two states.
`CategoricalSums` counts one run after the other; `pairs_of` many runs of one length at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hushmq.broker.contract.policy_message import MOST_LEARNED_STATES
from hushmq.calibrator.models.lag_bands import BANDS, WIDTHS

Integers = NDArray[np.int64]

COARSENESS = (1, 1, 2, 2)
"""c of each band: the long lags are for misfit and for slow chains, which have time."""
MULTIPLES = (1, *(width * coarse for width, coarse in zip(WIDTHS, COARSENESS, strict=True)))
"""The scale of the noise on `counts` and on each band's pairs, in units of the first."""


def sensitivity(bands: int = len(BANDS)) -> int:
    """What one sanitized state can move in the counts and the first bands: L1, in units of the scale on `counts`."""
    return 2 + sum(4 // coarse for coarse in COARSENESS[:bands])


@dataclass(slots=True)
class CategoricalSums:
    """Exact sums of sanitized states under one noise version. Secret until noise is added.

    `starts` of a band: the ticks t from which all its lags could be counted; its pairs are starts × lags.
    """

    k: int
    ticks: int = 0
    counts: Integers = field(init=False, repr=False)
    starts: list[int] = field(default_factory=lambda: [0] * len(BANDS))
    pairs: Integers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.k, dtype=np.int64)
        self.pairs = np.zeros((len(BANDS), self.k, self.k), dtype=np.int64)

    @property
    def groups(self) -> list[list[int]]:
        """What noise is drawn for, a group for each of MULTIPLES."""
        return [self.counts.tolist(), *(band.ravel().tolist() for band in self.pairs)]

    def add(self, states: bytes) -> None:
        """Count one run of consecutive ticks, one byte per state."""
        run = np.frombuffer(states, dtype=np.uint8).astype(np.int64)
        self.ticks += len(run)
        self.counts += np.bincount(run, minlength=self.k)
        if self.k > MOST_LEARNED_STATES:
            return
        rows = run * self.k
        for band, (first, last) in enumerate(BANDS):
            starts = len(run) - last
            if starts <= 0:
                break
            self.starts[band] += starts
            for lag in range(first, last + 1):
                found = np.bincount(rows[:starts] + run[lag : lag + starts], minlength=self.k**2)
                self.pairs[band] += found.reshape(self.k, self.k)


def pairs_of(states: NDArray[np.uint8], k: int) -> Integers:
    """The pairs of each row of states, band by band: those of `CategoricalSums`, for many runs of one length at once.

    A state is a row of bits, 64 ticks to a word; a lag is a shift, a conjunction and a count of bits. The last state
    is what is left of the totals, which stand in its place on the way.
    """
    rows, ticks = states.shape
    words = -(-ticks // 64)
    here = np.zeros((rows, k, words * 64), dtype=bool)
    np.equal(states[:, None, :], np.arange(k - 1, dtype=np.uint8)[:, None], out=here[:, :-1, :ticks])
    here[:, -1, :ticks] = True
    bits = np.packbits(here, axis=-1, bitorder="little").view("<u8")
    later = np.zeros((rows, 1, k - 1, words + 1), dtype=np.uint64)
    later[:, 0, :, :-1] = bits[:, :-1]
    pairs = np.zeros((rows, len(BANDS), k, k), dtype=np.int64)
    for band, (first, last) in enumerate(BANDS):
        if ticks <= last:
            break
        used = -(-(ticks - last) // 64)
        mask = np.full(used, ~np.uint64(0))
        mask[-1] >>= np.uint64(used * 64 - (ticks - last))
        begin = bits[:, :, None, :used] & mask
        both = np.zeros((rows, k, k - 1, used), dtype=np.uint16)
        for lag in range(first, last + 1):
            moved = later[..., :used] >> np.uint64(lag) | later[..., 1 : used + 1] << np.uint64(64 - lag)
            both += np.bitwise_count(begin & moved)
        found = pairs[:, band]
        found[:, :, :-1] = both.sum(axis=-1, dtype=np.int64)
        alone = WIDTHS[band] * np.bitwise_count(begin[:, :, 0]).sum(axis=-1, dtype=np.int64)
        found[:, :, -1] = alone - found.sum(axis=-1)
        found[:, -1] -= found[:, :-1].sum(axis=1)
    return pairs


def sums_of(runs: Sequence[bytes], k: int) -> list[CategoricalSums]:
    """The sums of each of many runs of one length: those of `CategoricalSums.add`."""
    length = len(runs[0])
    states = np.frombuffer(b"".join(runs), dtype=np.uint8).reshape(len(runs), length)
    counts = np.stack([(states == state).sum(axis=1) for state in range(k)], axis=1)
    learned = k <= MOST_LEARNED_STATES
    pairs = pairs_of(states, k) if learned else np.zeros((len(runs), len(BANDS), k, k), dtype=np.int64)
    found = []
    for number in range(len(runs)):
        sums = CategoricalSums(k)
        sums.ticks, sums.counts, sums.pairs = length, counts[number], pairs[number]
        sums.starts = [max(0, length - last) if learned else 0 for _, last in BANDS]
        found.append(sums)
    return found
