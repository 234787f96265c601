"""A window of two states with hidden regimes: the noisy count of ones, and changes over long bands for learning."""

from __future__ import annotations

from collections.abc import Sequence

from hushmq.calibrator.models.binary.binary_count import draw_ones
from hushmq.calibrator.models.regime.regime_statistics import RegimeSums
from hushmq.calibrator.models.window_count import Pieces, WindowCount
from hushmq.pufferfish.binary.binary_noise import BinaryNoise


def count_regimes(pieces: Pieces, stride: int) -> WindowCount[RegimeSums, BinaryNoise]:
    """Count the states of one window, exactly; of a stream with a stride, those that were published."""

    def sum_up(each: Sequence[list[bytes]]) -> list[RegimeSums]:
        found = []
        for runs in each:
            found.append(RegimeSums(stride))
            for run in runs:
                found[-1].add(run)
        return found

    return WindowCount(pieces, sum_up, draw_ones)
