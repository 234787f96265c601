"""What a window spends keeps the public budget for ever, and is never under-charged."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.policy_message import Assumption, Audiences, StreamPolicy, Threshold, Window
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.ledger.audience_timelines import price_public
from hushmq.calibrator.ledger.debits import Debit
from hushmq.calibrator.ledger.window_spending import spending
from hushmq.calibrator.policy.nano_nats import NANO, scale_for
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

THETA = BinaryTheta(0.2, 0.3, 0.25, 0.35)
NOISE = BinaryNoise(0.3, 0.25)


def policy(*windows: int, public: float = 1.0, learning: float = 0.4) -> StreamPolicy:
    return StreamPolicy(
        states=("off", "on"),
        period_ms=1000,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(THETA)),
        epsilon=Audiences(operator=4.0, public=public),
        windows={f"w{ticks}": Window(ticks=ticks) for ticks in windows},
        learning=learning,
    )


@pytest.mark.parametrize("windows", [(50,), (20, 60)])
def test_tumbling_windows_for_ever_cost_the_budget_once(windows: tuple[int, ...]) -> None:
    """What `spending` grants keeps a long tumbling sequence within ε, and uses nearly all of it."""
    stream = policy(*windows)
    debits = []
    for ticks in windows:
        spent = spending(stream, f"w{ticks}", theta=THETA, noises=[NOISE])
        debits += [Debit(n * ticks, (n + 1) * ticks - 1, spent.tilt, NOISE) for n in range(240 // ticks)]
    loss = price_public(debits, THETA, stream).epsilon
    assert loss <= stream.epsilon.public
    assert loss > 0.99 * stream.epsilon.public
    dearer = [Debit(d.first, d.last, d.tilt * 102 // 100, d.noise) for d in debits]
    assert price_public(dearer, THETA, stream).epsilon > stream.epsilon.public


def test_the_worst_noise_counts() -> None:
    """With two noise settings in a window, the tilt suits the one that protects least."""
    stream = policy(50)
    both = spending(stream, "w50", theta=THETA, noises=[NOISE, BinaryNoise(0.1, 0.1)])
    assert both.tilt == spending(stream, "w50", theta=THETA, noises=[BinaryNoise(0.1, 0.1)]).tilt
    assert both.tilt < spending(stream, "w50", theta=THETA, noises=[NOISE]).tilt


def test_a_scale_never_costs_more_than_its_tilt() -> None:
    """Rounding goes to more noise."""
    for tilt in (1, 7, 333_333_333, NANO, 5 * NANO + 1):
        assert 3 / scale_for(3, tilt) <= tilt / NANO
