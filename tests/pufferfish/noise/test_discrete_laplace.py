"""Exact discrete Laplace noise: coins and law by enumeration, draws against the law and against OpenDP's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from hushmq.pufferfish.noise import discrete_laplace as laplace
from hushmq.pufferfish.noise import geometric_digits, noise_arrays
from hushmq.pufferfish.noise.discrete_laplace import discrete_laplace, geometric, standard_deviation
from hushmq.pufferfish.noise.geometric_digits import Coin, coins_of
from hushmq.pufferfish.noise.noise_arrays import discrete_laplace_array, geometric_array
from tests.pufferfish.sampling import RARE, distance, plausible, stray

DRAWS = 4_600
MANY = 40_000
SCALES = [Fraction(1, 2), Fraction(5, 3), Fraction(8.9)]
ODD_SCALES = [Fraction(n, d) for n, d in ((1, 1), (1, 2), (5, 3), (7, 2), (3, 7), (1, 60))]


def power(exponent: Fraction) -> Fraction:
    """e^exponent to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction((Decimal(exponent.numerator) / Decimal(exponent.denominator)).exp())


@pytest.mark.parametrize("scale", ODD_SCALES)
def test_the_digits_make_the_geometric_law(scale: Fraction) -> None:
    """The product of the coins' probabilities is (1−p)·p^m for every m below the rest, to 2^−63 of it and less."""
    coins = coins_of(scale)
    share = [Fraction(coin.edge(256), 2**256) for coin in coins.coins]
    p = power(-1 / scale)
    for ones in itertools.product((0, 1), repeat=min(6, coins.digits)):
        drawn = [*ones, *[0] * (len(share) - len(ones))]
        weight = math.prod(one if digit else 1 - one for one, digit in zip(share, drawn, strict=True))
        m = sum(digit << i for i, digit in enumerate(drawn))
        assert abs(weight / ((1 - p) * p**m) - 1) < Fraction(1, 2**150)


@pytest.mark.parametrize("scale", ODD_SCALES)
def test_the_rest_is_as_rare_as_the_law_says(scale: Fraction) -> None:
    """It is not 0 with probability p^(2^L), which is below 2^−64."""
    rest = coins_of(scale).coins[-1]
    wanted = power(-(2 ** coins_of(scale).digits) / scale)
    assert abs(Fraction(rest.edge(512), 2**512) / wanted - 1) < Fraction(1, 10**50)
    assert wanted < Fraction(1, 2**64)


def script(monkeypatch: pytest.MonkeyPatch, words: Sequence[int]) -> list[int]:
    """Let these words be drawn, in order; what is returned holds those that were not drawn yet."""
    left = list(words)

    def drawn(count: int) -> memoryview:
        taken = [left.pop(0) for _ in range(count)]
        return memoryview(np.array(taken, dtype=np.uint64)).cast("B").cast("Q")

    for module in (laplace, geometric_digits, noise_arrays):
        monkeypatch.setattr(module, "random_words", drawn)
    return left


@pytest.mark.parametrize(
    "coin", [Coin(Fraction(1, 3)), Coin(Fraction(2)), Coin(Fraction(1, 7), is_rest=True)]
)
def test_a_word_on_the_edge_is_decided_by_more_words(coin: Coin, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words next to P·2^64 need a second one; the word of P itself and its next 64 bits need a third."""
    first = coin.edge(64)
    second = coin.edge(128) % 2**64
    for word, more, wanted in [
        (first - 2, [], True),
        (first + 2, [], False),
        (first - 1, [7], True),
        (first + 1, [7], False),
        (first, [second - 2], True),
        (first, [second + 2], False),
        (first, [second, 0], True),
        (first, [second, 2**64 - 1], False),
    ]:
        left = script(monkeypatch, more)
        assert coin.decide(word) is wanted
        assert not left


@pytest.mark.parametrize("draw", [geometric, lambda scale: int(geometric_array(scale, 1)[0])])
def test_words_become_digits(draw: Callable[[Fraction], int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A small word is a one; an undecided one takes a further word; the rest, if it is there, is drawn again."""
    scale = Fraction(5, 3)
    coins = coins_of(scale)
    none = [2**64 - 1] * len(coins.coins)
    script(monkeypatch, none)
    assert draw(scale) == 0
    for i in range(coins.digits):
        script(monkeypatch, [*none[:i], 0, *none[i + 1 :]])
        assert draw(scale) == 1 << i
        script(monkeypatch, [*none[:i], coins.coins[i].edge(64) - 1, *none[i + 1 :], 0])
        assert draw(scale) == 1 << i
    above = len(coins_of(coins.rest()).coins)
    many = [2**64 - 1] * above
    script(monkeypatch, [*none[:-1], 0, 0, *many])  # of so rare an event the first word cannot decide
    assert draw(scale) == 1 << coins.digits
    script(monkeypatch, [*none[:-1], 0, 0, 0, *many[1:], 0])
    assert draw(scale) == 2 << coins.digits


def law(scale: float) -> Callable[[int], float]:
    """P(k) = (1−p)/(1+p)·p^|k|."""
    p = math.exp(-1 / scale)
    return lambda k: (1 - p) / (1 + p) * p ** abs(k)


def test_the_difference_of_two_geometric_draws_is_discrete_laplace() -> None:
    """Σ_m (1−p)²·p^(m+k)·p^m, by enumeration."""
    for scale in SCALES:
        p = math.exp(-1 / scale)
        for k in range(-9, 10):
            found = math.fsum((1 - p) ** 2 * p ** (m + max(k, 0) + m - min(k, 0)) for m in range(2000))
            assert found == pytest.approx(law(float(scale))(k), rel=1e-12)


def misfit(drawn: Sequence[int], scale: float) -> float:
    """Pearson's statistic over the cells −c … c and both tails, minus what a right law exceeds with RARE."""
    c = max(2, round(2 * scale))
    counts = np.bincount(np.clip(np.asarray(drawn), -c, c) + c, minlength=2 * c + 1)
    share = np.array([law(scale)(k) for k in range(-c, c + 1)])
    share[[0, -1]] += (1 - share.sum()) / 2
    expected = len(drawn) * share
    return float(((counts - expected) ** 2 / expected).sum() - chi2.isf(RARE, 2 * c))


@pytest.mark.parametrize("scale", [*SCALES, Fraction(40)])
def test_many_draws_at_once_follow_the_law(scale: Fraction) -> None:
    """Chi-square over all values: right but for 1e-8, and 30% off, or 5% at this number of draws, is rejected."""
    drawn = discrete_laplace_array(scale, MANY).tolist()
    assert misfit(drawn, float(scale)) <= 0
    for wrong in (0.7, 1.3):
        assert misfit(drawn, float(scale) * wrong) > 0


@pytest.mark.parametrize("scale", SCALES)
def test_opendp_draws_from_the_same_law(scale: Fraction) -> None:
    """OpenDP's sampler, of which a proof is published, passes the same test as ours; 30% off is rejected."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    mechanism = make_laplace(vector_domain(atom_domain(T=int)), l1_distance(T=int), scale=float(scale))
    theirs = list(mechanism([0] * 20_000))
    assert misfit(theirs, float(scale)) <= 0
    for wrong in (0.7, 1.3):
        assert misfit(theirs, float(scale) * wrong) > 0
    # Homogeneity: both samples as draws of one law, which they estimate together.
    ours = discrete_laplace_array(scale, len(theirs)).tolist()
    c = max(2, round(2 * float(scale)))
    table = np.array(
        [np.bincount(np.clip(np.asarray(one), -c, c) + c, minlength=2 * c + 1) for one in (ours, theirs)]
    )
    expected = table.sum(axis=0) / 2
    assert ((table - expected) ** 2 / expected).sum() < chi2.isf(RARE, 2 * c)


def size_law(scale: float) -> Callable[[int], float]:
    """P(|k| ≤ size) = 1 − 2p^(size+1)/(1+p) with p = e^(−1/scale)."""
    p = math.exp(-1 / scale)
    return lambda size: 1 - 2 * p ** (size + 1) / (1 + p) if size >= 0 else 0.0


@pytest.mark.parametrize("scale", SCALES)
def test_the_draws_follow_the_law_and_30_percent_off_is_rejected(scale: Fraction) -> None:
    """Sizes against their law and signs against a fair coin: right but for 2e-8, and 30% off is too far to pass."""
    drawn = [discrete_laplace(scale) for _ in range(DRAWS)]
    sizes = [abs(value) for value in drawn]
    assert distance(sizes, size_law(float(scale))) <= stray(DRAWS)
    for wrong in (0.7, 1.3):
        assert distance(sizes, size_law(float(scale) * wrong)) > stray(DRAWS)
    assert plausible(sum(value < 0 for value in drawn), sum(value != 0 for value in drawn), 0.5)


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_30_percent_off_cannot_pass(scale: Fraction) -> None:
    """The laws are more than twice the allowed distance apart, so what fits one is rejected for the other."""
    for wrong in (0.7, 1.3):
        ours, other = size_law(float(scale)), size_law(float(scale) * wrong)
        assert max(abs(ours(size) - other(size)) for size in range(60)) > 2 * stray(DRAWS)
    assert RARE < 1e-6


@pytest.mark.parametrize("scale", [0.5, 3.0, 20.0])
def test_the_standard_deviation_is_that_of_the_law(scale: float) -> None:
    """√(Σ k²·P(k))."""
    p = math.exp(-1 / scale)
    variance = sum(2 * k * k * (1 - p) / (1 + p) * p**k for k in range(1, 2000))
    assert math.isclose(standard_deviation(scale) ** 2, variance)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1, 3), Fraction(2**50 + 1)])
def test_a_scale_must_be_positive(scale: Fraction) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ValueError, match=r"^scale is .*; it must be positive and at most 2\^50"):
        discrete_laplace(scale)
