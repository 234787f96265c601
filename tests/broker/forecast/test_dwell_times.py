"""Θ from how long states last."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.dwell_times import assumption_of_dwell, sampled_chain, theta_of_dwell


@pytest.mark.parametrize("dwell", [(4.0, 4.0), (30.0, 2.0), (1.0, 600.0)])
@pytest.mark.parametrize("period", [0.5, 5.0, 300.0])
def test_looking_less_often_is_a_power_of_the_fast_chain(dwell: tuple[float, float], period: float) -> None:
    """The chain of a long period is the chain of a tiny period, multiplied out: what a stride of m does."""
    steps = 4096
    q, r = sampled_chain(dwell, period / steps)
    one_step = ((1 - q, q), (r, 1 - r))
    for _ in range(12):
        one_step = tuple(  # type: ignore[assignment]
            tuple(sum(one_step[i][k] * one_step[k][j] for k in (0, 1)) for j in (0, 1)) for i in (0, 1)
        )
    assert (one_step[0][1], one_step[1][0]) == pytest.approx(sampled_chain(dwell, period), rel=1e-9)
    # A step so short that at most one change fits is left with probability step/dwell.
    assert q == pytest.approx(period / steps / dwell[0], rel=0.1)


def test_every_chain_within_the_factor_is_in_theta() -> None:
    """The bounds hold inside the range of dwell times too, not only at its corners, and are tight there."""
    theta = theta_of_dwell((10.0, 40.0), 3.0, 2.0).chains
    factors = [0.5 * 4 ** (n / 12) for n in range(13)]
    chains = [sampled_chain((10 * a, 40 * b), 3.0) for a in factors for b in factors]
    assert all(theta.q_low <= q <= theta.q_high and theta.r_low <= r <= theta.r_high for q, r in chains)
    assert min(q for q, _ in chains) == pytest.approx(theta.q_low, rel=1e-3)
    assert max(r for _, r in chains) == pytest.approx(theta.r_high, rel=1e-3)


def test_an_assumption_is_valid_for_slow_and_fast_chains() -> None:
    """The start contains the floor after rounding, down to chains that forget everything between two ticks."""
    for period in (0.001, 1.0, 1e6):
        assumption_of_dwell((10.0, 0.5), period)
    with pytest.raises(Problem, match="above 0"):
        theta_of_dwell((0.0, 1.0), 1.0, 2.0)
