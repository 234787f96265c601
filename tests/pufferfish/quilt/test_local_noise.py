"""Emission matrices through the tilted quilt: never below what any output gives away, exact for two states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary import stream_loss as binary
from hushmq.pufferfish.quilt import local_noise as local
from hushmq.pufferfish.quilt import tilted_quilt as quilt
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish.oracles_categorical import losses
from tests.pufferfish.oracles_categorical import response as transcript
from tests.pufferfish.quilt.test_endless_quilt import RESTLESS, STICKY


def ordinal(k: int, step: float) -> np.ndarray:
    """Far outputs are less likely: e^−step for every state of distance."""
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    B = np.exp(-step * distance)
    return B / B.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("chain", [STICKY, RESTLESS])
@pytest.mark.parametrize(
    "emission", [ordinal(3, 0.3), ordinal(3, 1.0), np.array([[0.5, 0.5], [0.4, 0.6], [0.7, 0.3]])]
)
def test_no_output_gives_away_more(chain: Chain, emission: np.ndarray) -> None:
    """Every output of a short stream, by enumeration, stays within the loss that is stated."""
    assert losses(chain, 5, transcript(emission, 5)).max() <= local.loss([chain], emission)


def test_a_stated_loss_a_little_smaller_would_be_wrong() -> None:
    """On a chain that forgets quickly, five instants come within 3% of what is stated: the test above can fail."""
    chain = Chain([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]])
    stated = local.loss([chain], ordinal(3, 0.5))
    assert losses(chain, 5, transcript(ordinal(3, 0.5), 5)).max() >= 0.97 * stated


@settings(max_examples=15, deadline=None)
@given(
    q=st.floats(0.02, 0.9),
    r=st.floats(0.02, 0.9),
    rho0=st.floats(0.05, 0.45),
    rho1=st.floats(0.05, 0.45),
)
def test_two_states_are_exact(q: float, r: float, rho0: float, rho1: float) -> None:
    """With two states and different ρ0 and ρ1 it is the binary loss, both where states stick and alternate."""
    noise = binary.BinaryNoise(rho0, rho1)
    exact = binary.loss(binary.BinaryTheta.point(q, r), tau0=noise.tau0, tau1=noise.tau1, adversary="prior")
    chain = Chain([[1 - q, q], [r, 1 - r]])
    assert local.loss([chain], np.array([[1 - rho0, rho0], [rho1, 1 - rho1]])) == pytest.approx(
        exact, rel=1e-6
    )


def test_what_hardly_tells_neighbours_apart_costs_less() -> None:
    """An emission whose largest tilt is between far states loses less than its largest tilt everywhere would."""
    emission = ordinal(3, 0.4)
    assert local.loss([STICKY], emission) < 0.95 * quilt.loss(
        [STICKY], None, float(local.tilts(emission).max())
    )


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_randomized_response_spends_epsilon(epsilon: float) -> None:
    """The matrix keeps ε for the worst of the chains, and hardly any of it is left."""
    chains = [STICKY, RESTLESS]
    assert (1 - 1e-6) * epsilon <= local.loss(chains, local.randomized_response(chains, epsilon)) <= epsilon


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_any_matrix_can_be_damped_to_epsilon(epsilon: float) -> None:
    """What loses too much is mixed with its mean row, just enough; what does not is left alone."""
    sharp = ordinal(3, 1.5)
    assert local.loss([STICKY], sharp) > epsilon
    found = local.damped([STICKY], sharp, epsilon)
    assert np.allclose(found.sum(axis=1), 1)
    assert (1 - 1e-6) * epsilon <= local.loss([STICKY], found) <= epsilon
    assert np.array_equal(local.damped([STICKY], found, 2 * epsilon), found)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: local.tilts(np.array([[1.0, 0.0], [0.5, 0.5]])), "some states only"),
        (lambda: local.tilts(np.array([[0.9, 0.2], [0.5, 0.5]])), "one row of probabilities"),
        (lambda: local.loss([STICKY], ordinal(4, 1.0)), "4 rows; the chain has 3"),
        (lambda: local.loss([], ordinal(3, 1.0)), "chains is empty"),
        (lambda: local.loss([Chain(STICKY.transition, [1, 0, 0])], ordinal(3, 1.0)), "initial"),
        (lambda: local.randomized_response([STICKY], 0.0), "epsilon is 0"),
    ],
)
def test_what_cannot_be_priced_is_refused(call: object, says: str) -> None:
    """Each refusal says what is wrong."""
    assert callable(call)
    with pytest.raises(ValueError, match=says):
        call()
