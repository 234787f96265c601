"""The tilted quilt at every length and start: never below any mechanism, never above MQMExact, exact if binary."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.endless_quilt import largest_tilt, side_solvers, uniform_tilt
from hushmq.pufferfish.quilt.laplace_scale import LaplaceScale
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.noise_lower_bound import noise_lower_bound
from hushmq.pufferfish.quilt.tilted_quilt import loss, tilted_quilt_scale
from tests.pufferfish.oracles_categorical import worst_mechanism
from tests.pufferfish.quilt.test_endless_quilt import RESTLESS, STICKY, mixing_chains

STARTS = [None, [0.2, 0.5, 0.3], [0.6, 0.4, 0.0], [0.0, 1.0, 0.0]]
ROUND = Chain([[0.0, 0.7, 0.3, 0.0], [0.0, 0.0, 0.4, 0.6], [0.5, 0.0, 0.0, 0.5], [0.2, 0.8, 0.0, 0.0]])
TURNS = [[0.0, 0.0, 0.9, 0.1], [0.0, 0.0, 0.2, 0.8], [0.9, 0.1, 0.0, 0.0], [0.4, 0.6, 0.0, 0.0]]
"""Two groups of states that take turns: periodic, but it forgets which state of a group it was in."""


def true_loss(chain: Chain, length: int, tau: float) -> float:
    """The largest loss of any mechanism with tilt τ at every instant, by linear programs over all likelihoods."""
    laws = [chain.start() @ np.linalg.matrix_power(chain.transition, i) for i in range(length)]
    losses = (worst_mechanism(chain, [tau] * length, i) for i, law in enumerate(laws) if np.sum(law > 0) > 1)
    return max(losses, default=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("transition", [STICKY.transition, RESTLESS.transition])
@pytest.mark.parametrize("initial", STARTS)
@pytest.mark.parametrize("length", [2, 3])
def test_never_below_the_worst_mechanism(
    transition: np.ndarray, initial: list[float] | None, length: int
) -> None:
    """No mechanism loses more at any instant, and some mechanism comes within 2%."""
    chain = Chain(transition, initial)
    true = true_loss(chain, length, 0.8)
    assert true <= loss([chain], length, 0.8) + 1e-9
    assert loss([chain], length, 0.8) <= 1.02 * true


@settings(max_examples=15, deadline=None)
@given(
    q=st.floats(0.02, 0.98),
    r=st.floats(0.02, 0.98),
    start=st.one_of(st.none(), st.sampled_from([0.0, 1.0]), st.floats(1e-6, 1 - 1e-6)),
    length=st.integers(1, 5),
    tau=st.floats(0.05, 3),
)
def test_two_states_are_exact(q: float, r: float, start: float | None, length: int, tau: float) -> None:
    """With two states, at every length and start, some mechanism loses exactly the bound."""
    chain = Chain([[1 - q, q], [r, 1 - r]], None if start is None else [start, 1 - start])
    assert loss([chain], length, tau) == pytest.approx(true_loss(chain, length, tau), abs=1e-7)


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(
    chain=mixing_chains(),
    length=st.one_of(st.integers(1, 40), st.sampled_from([1000, 10**6])),
    epsilon=st.floats(0.1, 8),
    data=st.data(),
)
def test_between_the_limit_and_mqm_exact(
    chain: Chain, length: int, epsilon: float, data: st.DataObject
) -> None:
    """On every chain, length and initial law: at most MQMExact's noise, at least the lower bound."""
    weights = data.draw(
        st.one_of(st.none(), st.lists(st.sampled_from([0.0, 0.01, 1.0]), min_size=chain.k, max_size=chain.k))
    )
    if weights is not None and sum(weights) > 0:
        chain = Chain(chain.transition, np.array(weights) / sum(weights))
    found = tilted_quilt_scale([chain], length, epsilon)
    assert found.scale <= mqm.exact([chain], length, epsilon).scale * (1 + 1e-9)
    assert found.scale >= noise_lower_bound([chain], length, epsilon).scale * (1 - 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("transition", "initial"), [(TURNS, [0.5, 0.5, 0, 0]), (TURNS, None)])
@pytest.mark.parametrize("length", [6, 60])
def test_chains_that_never_forget(
    transition: list[list[float]], initial: list[float] | None, length: int
) -> None:
    """A periodic chain of finite length has an answer, never above MQMExact, which helps if the phase is known."""
    chain = Chain(transition, initial)
    assert tilted_quilt_scale([chain], length, 1.0).scale <= mqm.exact([chain], length, 1.0).scale * (
        1 + 1e-9
    )


@pytest.mark.slow
def test_an_absorbing_state_costs_the_whole_stream() -> None:
    """If the last state determines the first, the noise is that of one secret as long as the stream."""
    chain = Chain([[0.5, 0.5], [0.0, 1.0]], [0.5, 0.5])
    assert true_loss(chain, 4, 0.3) <= loss([chain], 4, 0.3) <= 4 * 0.3 + 1e-9
    assert tilted_quilt_scale([chain], 50, 1.0).scale <= 50 * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("chain", [STICKY, RESTLESS, ROUND])
def test_long_streams_need_what_endless_ones_do(chain: Chain) -> None:
    """Noise grows with the length, up to that of the endless stream; never beyond."""
    scales = [tilted_quilt_scale([chain], length, 1.0).scale for length in (1, 2, 5, 40, 10**6)]
    assert scales[0] == pytest.approx(1.0, rel=1e-8)
    assert all(less <= more * (1 + 1e-8) for less, more in pairwise(scales))
    endless = 1 / float(largest_tilt(side_solvers(chain), uniform_tilt(chain.k), 1.0).tilt.max())
    assert scales[-1] == pytest.approx(endless, rel=1e-9)
    assert tilted_quilt_scale([chain], None, 1.0).scale == pytest.approx(endless, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("length", [7, 300, None])
def test_the_stationary_start_in_numbers_is_no_start(length: int | None) -> None:
    """The past of a given start that is the stationary one is the past of a stationary stream."""
    given_start = Chain(STICKY.transition, STICKY.stationary())
    one, other = tilted_quilt_scale([given_start], length, 1.0), tilted_quilt_scale([STICKY], length, 1.0)
    assert one.scale == pytest.approx(other.scale, rel=1e-5)
    assert loss([given_start], length, 0.1) == pytest.approx(loss([STICKY], length, 0.1), rel=1e-5)


@pytest.mark.slow
def test_a_start_that_is_felt_for_long_is_not_forgotten_early() -> None:
    """Where the start matters long after, a long stream's bound is no smaller than a short one's."""
    chain = Chain([[0.995, 0.005, 0], [0.01, 0.98, 0.01], [0, 0.002, 0.998]], [1, 0, 0])
    losses = [loss([chain], length, 0.05) for length in (3, 30, 100)]
    assert losses == sorted(losses)
    assert noise_lower_bound([chain], 100, losses[2]).scale <= 1 / 0.05 * (1 + 1e-9)


def test_the_worst_chain_decides_and_its_quilt_is_told() -> None:
    """Θ needs what its worst member needs; at an end of the stream there is no quilt on that side."""
    each = [tilted_quilt_scale([chain], None, 1.0) for chain in (STICKY, RESTLESS)]
    assert tilted_quilt_scale([STICKY, RESTLESS], None, 1.0) == max(each, key=lambda one: one.scale)
    assert tilted_quilt_scale([STICKY], 1, 2.0) == LaplaceScale(
        "tilted-quilt", pytest.approx(0.5), (None, None)
    )
    assert None not in tilted_quilt_scale([STICKY], 9, 1.0).quilt


def test_no_tilt_no_loss() -> None:
    """What publishes nothing loses nothing."""
    assert loss([STICKY], None, 0.0) == 0.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tilted_quilt_scale([], None, 1.0), "chains is empty"),
        (lambda: loss([], None, 1.0), "chains is empty"),
        (lambda: tilted_quilt_scale([STICKY], 0, 1.0), "length is 0"),
        (lambda: tilted_quilt_scale([STICKY], None, math.inf), "epsilon is inf"),
        (lambda: loss([STICKY], None, -1.0), "tau is -1"),
        (lambda: tilted_quilt_scale([Chain(TURNS)], None, 1.0), "period 2"),
        (lambda: tilted_quilt_scale([Chain(TURNS, [1, 0, 0, 0])], None, 1.0), "never forgets"),
    ],
)
def test_what_has_no_answer_is_refused(call: object, says: str) -> None:
    """Each refusal says what is wrong."""
    assert callable(call)
    with pytest.raises(ValueError, match=says):
        call()
