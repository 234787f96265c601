"""The weights minimise the bound, and their bias is at most the stated one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.pufferfish.inference.minimax_weights import Weights, minimax_weights

PARTS = st.lists(
    st.tuples(st.integers(1, 10_000), st.floats(-14, 5).map(lambda power: 10**power)), min_size=1, max_size=5
)


def bound(each: np.ndarray, wanted: np.ndarray, variances: np.ndarray) -> float:
    """The largest mean square, by trying every part at 0 and at 1."""
    biases = [(each - wanted) @ np.array(shares) for shares in product((0, 1), repeat=len(wanted))]
    return float(np.max(np.abs(biases)) ** 2 + each**2 @ variances)


def found(parts: list[tuple[int, float]]) -> tuple[Weights, np.ndarray, np.ndarray]:
    ticks, variances = zip(*parts, strict=True)
    return minimax_weights(ticks, variances), np.array(ticks) / sum(ticks), np.array(variances)


@given(PARTS)
def test_the_bias_is_the_largest_there_is(parts: list[tuple[int, float]]) -> None:
    """Weights sum to one, and the bias stated is attained at some shares of the parts, and exceeded at none."""
    weights, wanted, _ = found(parts)
    assert sum(weights.each) == pytest.approx(1.0)
    assert min(weights.each) >= 0
    shares = [np.array(one) for one in product((0, 0.3, 1), repeat=len(parts))]
    off = [abs((np.array(weights.each) - wanted) @ one) for one in shares]
    assert max(off) == pytest.approx(weights.bias, rel=1e-6, abs=1e-12)


@given(PARTS, st.integers(0, 2**32 - 1))
def test_no_other_weights_have_a_smaller_bound(parts: list[tuple[int, float]], seed: int) -> None:
    """Neither those wanted, nor any drawn at random near or far, nor a shift between two parts by a little."""
    weights, wanted, variances = found(parts)
    best = bound(np.array(weights.each), wanted, variances)
    rng = np.random.default_rng(seed)
    others = [wanted, *rng.dirichlet(np.ones(len(parts)), 20)]
    others += [np.array(weights.each) * (1 - t) + t * other for other in others for t in (1e-1, 1e-3)]
    for a, b in product(range(len(parts)), repeat=2):
        others.append(np.array(weights.each))
        others[-1][a] += 1e-4
        others[-1][b] -= 1e-4
    assert all(bound(other, wanted, variances) >= best * (1 - 1e-9) for other in others)


def test_what_is_known_alike_keeps_its_weight() -> None:
    """One part, or parts that contribute equally to the error, keep their weights, without bias."""
    assert minimax_weights([7], [0.3]) == Weights((1.0,), 0.0)
    weights = minimax_weights([10, 30], [0.3, 0.1])
    assert weights.each == pytest.approx((0.25, 0.75))
    assert weights.bias == pytest.approx(0.0, abs=1e-12)


def test_few_ticks_behind_strong_noise_lose_their_weight() -> None:
    """50 of 7,200 ticks that would double the error are all but left out, at a bias of as much as they are."""
    weights = minimax_weights([7150, 50], [0.0006, 30.0])
    assert weights.each[1] < 0.05 * 50 / 7200
    assert 0.95 * 50 / 7200 < weights.bias < 50 / 7200


def test_half_of_all_ticks_keep_theirs() -> None:
    """What makes up half of the whole is nearly in full weight, however much better the other half is known."""
    weights = minimax_weights([3600, 3600], [0.0013, 0.03])
    assert 0.48 < weights.each[1] < 0.5


@pytest.mark.parametrize(
    ("wanted", "variances", "says"),
    [
        ([], [], "every part needs one"),
        ([1, 2], [0.1], "2 parts with 1 variances"),
        ([1, 0], [0.1, 0.1], "must be positive"),
        ([1, 2], [0.1, 0.0], "must be positive"),
    ],
)
def test_what_is_refused(wanted: list[float], variances: list[float], says: str) -> None:
    """Parts without ticks, or without a variance, are refused."""
    with pytest.raises(ValueError, match=says):
        minimax_weights(wanted, variances)
