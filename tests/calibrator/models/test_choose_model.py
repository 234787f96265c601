"""One place chooses the chain model of a stream, and reads what any of them stored."""

from __future__ import annotations

import pytest

from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.models.categorical_model import CATEGORICAL
from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.models.choose_model import model_of, models, read_noise
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.protocols import Noise, Theta
from tests.calibrator.site import stream_policy
from tests.calibrator.test_more_states import around

THETAS: dict[AnyModel, Theta] = {BINARY: BINARY.start(stream_policy()), CATEGORICAL: around(0.2).chains}


def test_the_number_of_states_decides() -> None:
    """Two states have the binary model, and all that is made under a policy is of its model."""
    assert model_of(stream_policy()) is BINARY
    assert BINARY.floor(stream_policy()).states == 2


@pytest.mark.parametrize("noise", [BinaryNoise(0.1, 1 / 3), CategoricalNoise.response(3, 1.5)])
def test_noise_is_read_as_it_was_stored(noise: Noise) -> None:
    """Exactly, whatever its model."""
    assert read_noise(noise.as_json()) == noise


def test_noise_of_no_model_is_refused() -> None:
    """A form that a newer version may have written is not taken for another."""
    with pytest.raises(ValueError, match="no chain model"):
        read_noise('{"regimes": []}')


@pytest.mark.parametrize("model", THETAS)
def test_theta_is_read_as_it_was_stored(model: AnyModel) -> None:
    """Exactly; and a region that holds all of the start leaves all of it."""
    theta = THETAS[model]
    assert model in models().values()
    assert model.read_theta(theta.as_tree()) == theta
    assert model.within(theta, model.read_region(theta.as_tree())) == theta
