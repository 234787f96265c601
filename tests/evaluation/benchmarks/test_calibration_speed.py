"""The plain calibration that ours is timed against does the same thing."""

from __future__ import annotations

import pytest

from hushmq.evaluation.benchmarks.calibration_speed import fastest, plain_loss, plain_noise
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize(
    ("q", "r", "epsilon"), [(0.0893, 0.1092, 1.0), (0.2, 0.2, 4.0), (0.028, 0.402, 3.677)]
)
def test_both_sides_find_the_same_noise(q: float, r: float, epsilon: float, adversary: Adversary) -> None:
    """Bisection on the recursion and the closed form agree to 1e-8."""
    ours, plain = (
        optimal_noise(BinaryTheta.point(q, r), epsilon, adversary),
        plain_noise(q, r, epsilon, adversary),
    )
    assert (ours.rho0, ours.rho1) == pytest.approx((plain.rho0, plain.rho1), rel=1e-8)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize("tau", [0.01, 0.5, 3.0])
def test_both_sides_find_the_same_loss(tau: float, adversary: Adversary) -> None:
    """Iterated to a stand-still, the recursion reaches the certified loss from below, within 1e-9."""
    q, r = 0.1, 0.3
    plain = max(plain_loss(q, r, tau, adversary), plain_loss(r, q, tau, adversary))
    assert plain <= loss(BinaryTheta.point(q, r), tau0=tau, tau1=tau, adversary=adversary) <= plain + 1e-9


def test_the_least_of_several_rounds_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of four calls each, one more where the clock has not moved: the least time of a call, the last result."""
    calls: list[int] = []

    def work() -> int:
        calls.append(len(calls))
        return calls[-1]

    # Two looks at the clock a round, three in the second, which is repeated.
    clock = iter([0.0, 8.0, 10.0, 10.0, 14.0, 20.0, 32.0])
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    assert fastest(work, rounds=3, times=4) == (0.5, 15)
    assert len(calls) == 16
