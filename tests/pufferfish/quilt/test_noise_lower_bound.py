"""The lower bound: attained losses, hence below every valid bound; close to the tilted quilt on real chains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.noise_lower_bound import CountLosses, noise_lower_bound
from tests.pufferfish.oracles_categorical import histogram, losses
from tests.pufferfish.quilt.test_endless_quilt import RESTLESS, STICKY, mixing_chains, scale
from tests.pufferfish.real_chains import activity, heart_rate, occupancy, power
from tests.recordings import needs_data

SETS = np.array([[bool(n >> i & 1) for i in range(3)] for n in range(1, 7)])


def worst_window(chain: Chain, length: int, tau: float) -> float:
    """The largest loss of a histogram over some window of a short stream, by enumeration."""
    windows = [range(first, last) for first in range(length) for last in range(first + 1, length + 1)]
    return max(
        float(losses(chain, length, histogram(3, length, 2 / tau, window)).max()) for window in windows
    )


@pytest.mark.parametrize("chain", [STICKY, RESTLESS, Chain(STICKY.transition, [0.6, 0.4, 0.0])])
@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_limit_of_a_short_stream_is_attained(chain: Chain, length: int) -> None:
    """Counting sets loses exactly what the worst histogram over a window of the stream loses."""
    counted = CountLosses(chain, length)._loss(0.9, SETS, SETS).max()
    assert counted == pytest.approx(worst_window(chain, length, 0.9), rel=1e-9)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(chain=mixing_chains(), epsilon=st.floats(0.1, 6))
def test_never_above_the_tilted_quilt(chain: Chain, epsilon: float) -> None:
    """A real loss is never above a sound bound."""
    assert noise_lower_bound([chain], None, epsilon).scale <= scale(chain, epsilon) * (1 + 1e-9)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(q=st.floats(0.02, 0.98), r=st.floats(0.02, 0.98), epsilon=st.floats(0.1, 6))
def test_binary_chains_meet_their_limit(q: float, r: float, epsilon: float) -> None:
    """With two states the tilted quilt attains the lower bound, for positive and for negative correlation."""
    chain = Chain([[1 - q, q], [r, 1 - r]])
    assert noise_lower_bound([chain], None, epsilon).scale == pytest.approx(scale(chain, epsilon), rel=1e-6)


@pytest.mark.slow
def test_many_states_are_searched() -> None:
    """Beyond ten states the search finds at least what all thresholds and single flips offer."""
    rng = np.random.default_rng(4)
    walk = 0.6 * np.eye(12) + 0.2 * np.eye(12, k=1) + 0.2 * np.eye(12, k=-1) + 0.01 * rng.random((12, 12))
    chain = Chain(walk / walk.sum(axis=1, keepdims=True))
    found = CountLosses(chain)
    best = found.of(0.1, found.worst_set(0.1))[0]
    thresholds = np.array([np.arange(12) < size for size in range(1, 12)])
    assert best >= found.of(0.1, thresholds).max() - 1e-9
    assert noise_lower_bound([chain], None, 1.0).scale <= scale(chain, 1.0)


def test_a_finite_stream_needs_less_and_a_set_of_chains_the_most() -> None:
    """The lower bound grows with the length towards that of the endless stream; Θ has that of its worst chain."""
    scales = [noise_lower_bound([STICKY], length, 1.0).scale for length in (1, 3, 30, 1000)]
    assert scales == sorted(scales)
    assert scales[0] == pytest.approx(1.0)
    endless = noise_lower_bound([STICKY], None, 1.0).scale
    assert scales[-1] == pytest.approx(endless, rel=1e-6)
    assert noise_lower_bound([RESTLESS, STICKY], None, 1.0).scale == endless


@pytest.mark.parametrize(("epsilon", "length"), [(0.0, None), (float("nan"), None), (1.0, 0)])
def test_nonsense_is_refused(epsilon: float, length: int | None) -> None:
    """ε must be positive and finite, a length at least one."""
    with pytest.raises(ValueError, match=r"epsilon is|length is"):
        noise_lower_bound([STICKY], length, epsilon)


class TestRealChains:
    """The goal on real recordings: within 1.10 of the lower bound up to 8 states, within 1.25 at 51."""

    pytestmark = needs_data

    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
    @pytest.mark.parametrize(("subject", "bins"), [("N10", 4), ("N2", 5), ("N11", 4), ("N10", 8)])
    def test_heart_rate(self, subject: str, bins: int, epsilon: float) -> None:
        """Heart rate in up to eight bins, the subjects with the largest gaps among them."""
        chain = heart_rate(subject, bins)
        assert (
            1 <= scale(chain, epsilon) / noise_lower_bound([chain], None, epsilon).scale * (1 + 1e-9) < 1.10
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
    def test_activity_and_occupancy_meet_their_limit(self, epsilon: float) -> None:
        """Slow chains of four and of two states leave nothing to gain."""
        for chain in (activity(), occupancy()):
            assert scale(chain, epsilon) == pytest.approx(
                noise_lower_bound([chain], None, epsilon).scale, rel=1e-6
            )

    @pytest.mark.slow
    def test_power(self) -> None:
        """Fifty-one bins of power at ε = 1."""
        chain = power()
        assert 1 <= scale(chain, 1.0) / noise_lower_bound([chain], None, 1.0).scale < 1.03

    def test_the_numbers_of_the_heart_rate_chain(self) -> None:
        """The chain is the one of docs/theory-k.md: lower bound 19.93, tilted quilt 21.24 at ε = 1."""
        chain = heart_rate()
        assert noise_lower_bound([chain], None, 1.0).scale == pytest.approx(19.926, abs=0.001)
        assert scale(chain, 1.0) == pytest.approx(21.244, abs=0.001)
