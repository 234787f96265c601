"""The orbit of a ratio through many different Möbius maps, one after the other, with numpy.

The maps are cut into blocks of equal length. Products of the maps are built for all blocks at once; then the ratio goes
from block to block, and from the beginning of each block to all of its places at once. All entries are non-negative, so
that nothing cancels, and the rounding errors of a product are those of its factors.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_LONGEST = 64
"""Maps in a block at most."""

_SCALED = 8
"""After so many factors a product is scaled, long before it could become too large or too small."""


def orbit_through(np: ModuleType, maps: NDArray[np.float64], y: float) -> NDArray[np.float64]:
    """The images of y under the first map, the first two, and so on; rows are a, b, c, d of (a·y + b)/(c·y + d)."""
    count = len(maps)
    length = min(math.isqrt(count), _LONGEST)
    blocks = -(-count // length)
    factors = np.empty((blocks * length, 4))
    np.divide(maps, maps.sum(axis=1, keepdims=True), out=factors[:count])
    factors[count:] = 0.5, 0.0, 0.0, 0.5
    # By place, row, column and block.
    factors = np.ascontiguousarray(factors.reshape(blocks, length, 4).transpose(1, 2, 0))
    factors = factors.reshape(length, 2, 2, blocks)
    products = np.empty_like(factors)
    products[0] = factors[0]
    for place in range(1, length):
        factor, before, product = factors[place], products[place - 1], products[place]
        np.multiply(factor[:, :1], before[0], out=product)
        product += factor[:, 1:] * before[1]
        if place % _SCALED == 0:
            product /= product.sum(axis=(0, 1))
    starts = []
    for a, b, c, d in products[-1].reshape(4, blocks).T.tolist():
        starts.append(y)
        y = (a * y + b) / (c * y + d)
    above, below = products[:, 0], products[:, 1]
    begun = np.array(starts)
    images = (above[:, 0] * begun + above[:, 1]) / (below[:, 0] * begun + below[:, 1])
    return images.T.ravel()[:count]  # type: ignore[no-any-return]  # numpy's, as the module is
