"""Words of 64 bits from the operating system's generator: the one source of every draw."""

from __future__ import annotations

import os

WORD = 64
"""Bits in a word."""


def random_words(count: int) -> memoryview:
    """So many words, each a number below 2^64."""
    return memoryview(os.urandom(WORD // 8 * count)).cast("Q")
