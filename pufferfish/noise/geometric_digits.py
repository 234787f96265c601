"""The binary digits of a geometric draw, P(m) ∝ e^(−m/scale): independent coins, tossed exactly.

Theorem. Let p = e^(−1/scale). The binary digits of m are independent; digit i is 1 with the odds p^(2^i) to 1. What is
above the first L digits, ⌊m/2^L⌋, is independent of them and geometric with the scale divided by 2^L: it is 0 but with
probability p^(2^L), and if not, one less of it has the same law again.
Proof. P(m) = (1−p)·p^m, and p^m is the product of p^(2^i) over the digits i that are 1. Since 1−p = (1−p^(2^L)) ·
Π_{i<L} 1/(1+p^(2^i)), the law is a product of laws of the digits and of the rest. ∎

So a draw takes a fixed number of coins, whatever comes out: no rejection, and nothing that runs longer for a larger
draw. A coin of probability P compares a uniform number with P. Its first word decides unless it is one of the three or
so that are nearest to P·2^64; then more words are drawn until they decide. The law is exact: no probability is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from hushmq.pufferfish.noise.random_words import WORD, random_words

ENOUGH = 45
"""Digits are tossed up to this many scales; e^−45 is below 2^−64, so what is above them is decided as rarely."""
LARGEST_SCALE = 2**50
"""So that a draw fits into 64 bits."""


@dataclass(frozen=True, slots=True)
class Coin:
    """A digit, of probability 1/(1+e^exponent); or the rest above all digits, which is not 0 with e^(−exponent)."""

    exponent: Fraction
    is_rest: bool = False

    def edge(self, bits: int) -> int:
        """P·2^bits to less than one unit: it lies between edge − 1 and edge + 2.

        Decimal's exp is correctly rounded, and 40 digits beyond the last bit are far more than the operations lose.
        """
        with localcontext() as context:
            context.prec = 40 + bits
            x = (Decimal(self.exponent.numerator) / Decimal(self.exponent.denominator)).exp()
            return int((1 / x if self.is_rest else 1 / (1 + x)) * 2**bits)

    def decide(self, word: int) -> bool:
        """Toss with this first word, and with as many more as it takes."""
        bits = WORD
        while True:
            # The uniform number lies in [word, word + 1).
            edge = self.edge(bits)
            if word + 1 <= edge - 1:
                return True
            if word >= edge + 2:
                return False
            word = word << WORD | random_words(1)[0]
            bits += WORD


@dataclass(frozen=True, slots=True)
class Coins:
    """All coins of a draw: the digits from the lowest on, and last the rest. With their first words' limits.

    A word below `low` is a one, a word from `high` on is a zero, and one in between does not decide.
    """

    scale: Fraction
    coins: tuple[Coin, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def digits(self) -> int:
        """How many digits there are below the rest."""
        return len(self.coins) - 1

    def rest(self) -> Fraction:
        """The scale of what is above the digits."""
        return self.scale / (1 << self.digits)


@lru_cache(maxsize=256)
def coins_of(scale: Fraction) -> Coins:
    """The coins for this scale; ValueError unless it is positive and at most LARGEST_SCALE."""
    if not 0 < scale <= LARGEST_SCALE:
        raise ValueError(f"scale is {scale}; it must be positive and at most 2^50")
    digits = max(1, (int(ENOUGH * scale)).bit_length())
    coins = tuple(Coin((1 << i) / scale, is_rest=i == digits) for i in range(digits + 1))
    edges = [coin.edge(WORD) for coin in coins]
    low = tuple(max(0, edge - 1) for edge in edges)
    return Coins(scale, coins, low, tuple(edge + 2 for edge in edges))
