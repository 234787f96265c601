"""The bands of lags over which chains with regimes are counted: in ticks, whatever the stride of a stream.

A stream that publishes every m-th tick has pairs at lags that are multiples of m only. Of a band it counts those; a
band that holds none is not counted, has no noise and costs nothing. So rows of different strides are about the same
lags, and one fit uses them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

LONG_BANDS = (
    (1, 1),
    (2, 4),
    (5, 13),
    (14, 40),
    (41, 121),
    (122, 364),
    (365, 1093),
    (1094, 3280),
    (3281, 9841),
)
"""First and last lag of each band, in ticks. They widen threefold, as those for first-order chains do."""


@dataclass(frozen=True, slots=True)
class StridedBands:
    """The bands in published ticks: lags `first` … `last` of each, `lags` of them, 0 where there is none."""

    stride: int
    first: tuple[int, ...]
    last: tuple[int, ...]
    lags: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """The most that one sanitized state moves the ones, and each band's changes: 2 for each of its lags."""
        return (1, *(2 * lags for lags in self.lags))


@lru_cache(maxsize=1024)
def strided_bands(stride: int) -> StridedBands:
    """The bands of a stream that publishes every `stride`-th tick."""
    if stride < 1:
        raise ValueError(f"the stride is {stride}; it must be at least 1")
    first = tuple(-(-low // stride) for low, _ in LONG_BANDS)
    last = tuple(high // stride for _, high in LONG_BANDS)
    return StridedBands(
        stride, first, last, tuple(max(0, b - a + 1) for a, b in zip(first, last, strict=True))
    )
