"""Both chain models provide what the protocols ask for, and say the same as the engines behind them."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.theta_message import theta_message
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.protocols import Noise, Theta
from tests.calibrator.test_more_states import around

BINARY = BinaryTheta(0.01, 0.02, 0.02, 0.05)
THETAS: list[Theta] = [BINARY, around(0.2).chains]
WEAKER: dict[int, Adversary] = {2: "informed", 4: "prior"}
"""By number of states, an adversary against whom some window method does not hold."""
NOISES: list[Noise] = [BinaryNoise(0.2, 0.3), CategoricalNoise.response(3, 1.5)]


def test_a_theta_contains_only_its_own_kind() -> None:
    """A Θ is in a wider one of the same number of states, and never in one of another number."""
    wide, narrow = around(0.3).chains, around(0.2).chains
    assert wide.contains(narrow)
    assert not narrow.contains(wide)
    assert BinaryTheta(0.1, 0.4, 0.1, 0.4).contains(BinaryTheta(0.2, 0.3, 0.1, 0.4))
    assert not BinaryTheta(0.1, 0.4, 0.1, 0.4).contains(BinaryTheta(0.2, 0.3, 0.09, 0.4))
    assert not wide.contains(BINARY)
    assert not BINARY.contains(wide)


@pytest.mark.parametrize("theta", THETAS)
def test_tilts_within_epsilon_cost_no_more(theta: Theta) -> None:
    """The largest tilts have a loss within ε, and a window's tilt a price within it; a larger tilt has not."""
    tau0, tau1 = theta.largest_tilts(1.0, "prior")
    assert theta.constant_loss(tau0, tau1, "prior") <= 1.0
    assert theta.constant_loss(1.01 * tau0, 1.01 * tau1, "prior") > 1.0
    tau = theta.window_tilt("tilted-quilt", 1.0, "prior")
    assert theta.constant_loss(tau, tau, "prior") <= 1.0
    assert theta.method_error("tilted-quilt", "prior") is None
    with pytest.raises(ValueError, match="mqm-"):
        theta.window_tilt("mqm-exact" if theta.states == 2 else "mqm-approx", 1.0, WEAKER[theta.states])
    assert "not for the informed one" in (theta.method_error("mqm-exact", "informed") or "")


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("device_tilt", [0.0, 0.01])
def test_the_optimal_noise_spends_epsilon_and_no_more(theta: Theta, device_tilt: float) -> None:
    """With what device windows cost beside it; they may leave nothing, and then there is no noise."""
    tau0, tau1 = theta.optimal_noise(1.0, "prior", device_tilt).tilts
    assert 0.999 < theta.constant_loss(tau0 + device_tilt, tau1 + device_tilt, "prior") <= 1.0
    with pytest.raises(ValueError, match=r"device windows cost 1\.0000 at every tick"):
        theta.optimal_noise(1.0, "prior", 1.0)


def test_a_tree_is_what_the_message_holds() -> None:
    """For more than two states the tree has the fields of the message, exactly."""
    theta = around(0.2).chains
    assert theta.as_tree() == theta_message(theta).model_dump(mode="json")
    assert BINARY.as_tree() == {"q": [0.01, 0.02], "r": [0.02, 0.05]}


@pytest.mark.parametrize("noise", NOISES)
def test_less_tilt_leaves_less_signal(noise: Noise) -> None:
    """Noise of smaller tilts keeps them, is of the same kind, and has another fingerprint."""
    less = noise.with_tilts(*(tau / 2 for tau in noise.tilts))
    assert type(less) is type(noise)
    assert all(one <= tau / 2 for one, tau in zip(less.tilts, noise.tilts, strict=True))
    assert less.signal < noise.signal
    assert less.fingerprint != noise.fingerprint
    assert noise.amplified(noise.release_tilt(0.1)) <= 0.1


def test_the_stored_text_never_changes() -> None:
    """Ledger entries keep a digest of these bytes."""
    assert BinaryNoise(0.1, 0.25).as_json() == '{"rho0": 0.1, "rho1": 0.25}'
    rows = ((0.5, 0.25, 0.25), (0.25, 0.5, 0.25), (0.25, 0.25, 0.5))
    assert (
        CategoricalNoise(rows).as_json()
        == '{"emission": [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]]}'
    )


@pytest.mark.parametrize(
    "rows", [((1.0,),), ((0.5, 0.5), (1.0,)), ((0.5, 0.4), (0.5, 0.5)), ((1.5, -0.5), (0.5, 0.5))]
)
def test_what_is_no_emission_matrix_is_refused(rows: tuple[tuple[float, ...], ...]) -> None:
    """A matrix is square, of two states at least, and its rows are probabilities."""
    with pytest.raises(ValueError, match="emission matrix"):
        CategoricalNoise(rows)
