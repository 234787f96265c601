"""Features of a path's past, by which its next move is examined: dwell time, states some ticks ago, recent shares.

Each is a function of the states so far, so that a test may condition on it. They are kept in constant memory and
time: nothing but the last `LAGS[-1]` states and a few sums.
"""

from __future__ import annotations

DWELL_CLASSES = 16
"""Dwell times 1, 2–3, 4–7, … ticks; the last class is open."""
LAGS = (2, 4, 16, 64, 256)
"""How many ticks ago the state is compared with the present one."""
HORIZONS = (8, 64, 512)
"""Over how many ticks, about, the share of the present state is averaged; older ticks count less and less."""
BANDS = 4
"""The number of bands, equally wide, into which a share is sorted."""

DWELL_CELLS = range(1, 1 + DWELL_CLASSES)
LAG_CELLS = range(DWELL_CELLS.stop, DWELL_CELLS.stop + 2 * len(LAGS))
SHARE_CELLS = range(LAG_CELLS.stop, LAG_CELLS.stop + BANDS * len(HORIZONS))
CELLS = SHARE_CELLS.stop
"""The number of cells of one state: cell 0 is every tick, then those of each feature."""

_RING = LAGS[-1]
_GROWTH = tuple(1.0 / (1.0 - 1.0 / horizon) for horizon in HORIZONS)
_RESCALE = 1e100


class PathFeatures:
    """The features at the end of a path of at most 256 states. Its repr shows none of them."""

    def __init__(self, states: int) -> None:
        self._states = states
        self._ring = bytearray(_RING)
        self.restart()

    def restart(self) -> None:
        """Forget the path, after a tick without a state."""
        self._length = 0
        self._dwell = 0
        self._last = -1
        self._gains = [1.0] * len(HORIZONS)
        self._weights = [0.0] * len(HORIZONS)
        self._sums = [[0.0] * self._states for _ in HORIZONS]

    def extend(self, state: int) -> list[int]:
        """Append a state; returns the cells that the path is in now, one of each feature that its length allows."""
        self._dwell = self._dwell + 1 if state == self._last else 1
        self._last = state
        length, ring = self._length, self._ring
        cells = [0, min(self._dwell.bit_length(), DWELL_CLASSES)]
        cell = LAG_CELLS.start
        for lag in LAGS:
            if lag > length:
                break
            cells.append(cell + (ring[(length - lag) % _RING] == state))
            cell += 2
        ring[length % _RING] = state
        self._length = length + 1
        cell = SHARE_CELLS.start
        for number, growth in enumerate(_GROWTH):
            gain = self._gains[number] * growth
            sums = self._sums[number]
            sums[state] += gain
            weight = self._weights[number] = self._weights[number] + gain
            cells.append(cell + min(int(BANDS * sums[state] / weight), BANDS - 1))
            cell += BANDS
            if gain > _RESCALE:
                self._sums[number] = [share / gain for share in sums]
                self._weights[number] = weight / gain
                gain = 1.0
            self._gains[number] = gain
        return cells
