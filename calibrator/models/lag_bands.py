"""The bands of lags over which all chain models count pairs of states.

Every lag of a band is counted from the same starting ticks, so that the mean of a band is the plain mean of its lags
whatever the gaps are.
"""

from __future__ import annotations

BANDS = ((1, 1), (2, 4), (5, 13), (14, 40))
"""First and last lag of each band. They widen threefold: within a band λ^h changes little where it is not small."""
WIDTHS = tuple(last - first + 1 for first, last in BANDS)
"""How many lags each band has."""
