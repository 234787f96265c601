"""When Θ is updated and tested for change, and which share of the error each of them has.

Updating often and keeping the narrowest region would claim too much. So theta update k comes after FIRST_UPDATE·2^(k−1)
windows and may be wrong with probability (1−confidence)/2^k: with the given confidence ALL updates hold at once, and
so does their intersection. Windows from one update to the next form a block; change tests come 1, 2, 4, … windows
after an update, and with the next one.
"""

from __future__ import annotations

from hushmq.calibrator.models.confidence import CONFIDENCE

FIRST_UPDATE = 4
"""Windows before the first theta update."""
CHANGE_ERROR = 0.001
"""The probability that chance is ever taken for a change, over all change tests and devices, while Θ is right."""
MISFIT_ERROR = 0.001
"""The probability that first-order chains are ever taken for a misfit, over all updates and bands of lags.

Small, because covering a misfit that is none may stop a cohort's releases for good."""
OUTLIER_ERROR = 0.001
"""The probability that chance ever puts a device apart from the others at an update, while all are of one kind."""
KEPT_BLOCKS = 2
"""An update uses the statistics of so many blocks, the last ones; older statistics are deleted."""


def last_update(windows: int) -> int:
    """The number of windows at the last theta update, 0 before the first."""
    if windows < FIRST_UPDATE:
        return 0
    return FIRST_UPDATE << ((windows // FIRST_UPDATE).bit_length() - 1)


def is_update(windows: int) -> bool:
    """Whether Θ is updated after so many windows."""
    return windows > 0 and windows == last_update(windows)


def is_change_test(windows: int) -> bool:
    """Whether a learned Θ is tested for change after so many windows: 1, 2, 4, … windows after an update."""
    since = windows - last_update(windows - 1)
    return since & (since - 1) == 0


def block_of(windows: int) -> int:
    """The block that this window belongs to: 0 up to the first update, then one more after each update."""
    return max(0, (max(windows, 1) - 1) // FIRST_UPDATE).bit_length()


def error_share(block: int) -> float:
    """The share that the update at the end of this block has of an error for all updates: ½, ¼, …, together 1."""
    return 0.5 ** (block + 1)


def update_confidence(block: int) -> float:
    """The confidence of the regions of the update at the end of this block.

    A device is held by two of them, the cohort's and its own, so that each may be wrong with half the probability.
    """
    return 1 - (1 - CONFIDENCE) * error_share(block) / 2


def change_error(block: int) -> float:
    """The share of CHANGE_ERROR that each change test in this block has.

    Block k ≥ 1 has 2^(k+1) windows: k+1 change tests, and the one with its update.
    """
    return CHANGE_ERROR * error_share(block - 1) / (block + 2)


def misfit_error(block: int) -> float:
    """The share of MISFIT_ERROR that the update at the end of this block has."""
    return MISFIT_ERROR * error_share(block)


def outlier_error(block: int) -> float:
    """The share of OUTLIER_ERROR that the update at the end of this block has."""
    return OUTLIER_ERROR * error_share(block)
