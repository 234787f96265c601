"""The table of pre-computed bounds says what computing them anew says, and is read where it was filled."""

from __future__ import annotations

import pytest

from hushmq.calibrator.ledger.device_bounds import DeviceBounds
from hushmq.calibrator.ledger.device_exposure import DeviceExposure
from hushmq.calibrator.ledger.window_allowance import allowed
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import stream_policy

POLICY = stream_policy()
SLOW = BinaryTheta(0.05, 0.3, 0.05, 0.3)
STRONG, WEAK = BinaryNoise(0.3, 0.3), BinaryNoise(0.1, 0.15)
EXPOSURE = DeviceExposure("d0", SLOW, (STRONG, WEAK), ((5, WEAK),))


class Counting:
    """A Θ that counts how often a loss is computed under it."""

    def __init__(self, theta: BinaryTheta) -> None:
        self._theta, self.asked = theta, 0

    def constant_loss(self, tau0: float, tau1: float, adversary: str, *, stride: int = 1) -> float:
        self.asked += 1
        return self._theta.constant_loss(tau0, tau1, adversary, stride=stride)

    def __getattr__(self, name: str) -> object:
        return getattr(self._theta, name)


@pytest.mark.parametrize("method", ["least-noise", "mqm-exact"])
def test_the_allowance_is_the_largest_tilt_within_the_budget(method: str) -> None:
    """Whatever was asked before: never more than asked for, never more than keeps ε, and never less than either."""
    bounds = DeviceBounds(POLICY, 0)
    limit = allowed(POLICY, method, SLOW, EXPOSURE.noises, 8.0, 0)
    assert 0 < limit < 8
    for upper in (8.0, limit / 2, limit * 1.1, limit / 3, 0.0, limit * 0.999, 8.0):
        assert bounds.allowance(EXPOSURE, method, upper) == pytest.approx(min(upper, limit), rel=1e-6)
        assert bounds.allowance(EXPOSURE, method, upper) <= upper


def test_closing_a_window_computes_nothing_that_was_precomputed() -> None:
    """After `precompute` the table answers without a loss; a new setting of the device makes it compute again."""
    theta = Counting(SLOW)
    exposure = DeviceExposure("d0", theta, (STRONG, WEAK), ((5, WEAK),))
    bounds = DeviceBounds(POLICY, 0)
    bounds.precompute(exposure, tilt=0.01, allowances={"least-noise": 0.02})
    asked = theta.asked
    assert asked > 0
    assert bounds.allowance(exposure, "least-noise", 0.01) == 0.01
    assert bounds.public_loss(exposure, 0.01) == SLOW.constant_loss(0.01, 0.01, "prior")
    operator = bounds.operator_loss(exposure)
    assert theta.asked == asked
    weaker = BinaryNoise(0.05, 0.05)
    newer = DeviceExposure("d0", theta, (STRONG, WEAK, weaker), ((5, WEAK), (9, weaker)))
    assert bounds.operator_loss(newer) > operator
    assert theta.asked > asked
