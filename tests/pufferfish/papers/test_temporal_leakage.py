"""Cao et al.'s leakage against our exact loss, of which it is the special case of one number for all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.papers import markov_bdp_bound, temporal_leakage
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish.papers.test_zhao_reduction import bayesian_loss


def chain(q: float, r: float) -> Chain:
    return Chain([[1 - q, q], [r, 1 - r]])


@pytest.mark.parametrize(("q", "r"), [(0.2, 0.2), (0.0893, 0.1092), (0.02, 0.3), (0.4, 0.45)])
@pytest.mark.parametrize("tau", [0.1, 1.0, 3.0])
def test_of_two_states_it_is_the_exact_loss_to_the_prior_adversary(q: float, r: float, tau: float) -> None:
    """For positive correlation: the better of both directions is the larger one on either side."""
    exact = loss(BinaryTheta.point(q, r), tau0=tau, tau1=tau, adversary="prior")
    assert temporal_leakage.endless_leakage(chain(q, r), tau) == pytest.approx(exact, rel=1e-6)


def test_the_best_set_is_found() -> None:
    """Over all sets of states, not only prefixes, nothing is larger."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        matrix = rng.dirichlet(np.ones(4), 4)
        grown = np.expm1(1.3)
        best = max(
            np.log((1 + grown * a[chosen].sum()) / (1 + grown * b[chosen].sum()))
            for a in matrix
            for b in matrix
            for number in range(16)
            if (chosen := [s for s in range(4) if number >> s & 1]) is not None
        )
        assert temporal_leakage.passed_on(matrix, 1.3) == pytest.approx(best, rel=1e-12)


def test_the_largest_tilt_loses_epsilon_and_no_more() -> None:
    found = temporal_leakage.largest_tilt(chain(0.1, 0.2), 2.0)
    assert temporal_leakage.endless_leakage(chain(0.1, 0.2), found) <= 2.0
    assert temporal_leakage.endless_leakage(chain(0.1, 0.2), found * 1.001) > 2.0


@pytest.mark.parametrize(("q", "r", "rho"), [(0.2, 0.2, 0.1), (0.3, 0.4, 0.3), (0.1, 0.45, 0.2)])
def test_the_bound_for_chains_is_never_below_the_loss(q: float, r: float, rho: float) -> None:
    """Against all known states and transcripts of five ticks."""
    tau = float(np.log((1 - rho) / rho))
    assert markov_bdp_bound.loss(chain(q, r), tau, 5) >= bayesian_loss(chain(q, r), 5, rho)


def test_the_bound_for_chains_has_a_floor() -> None:
    """4·ln γ is spent before any noise; below it only the group bound of a short stream is left."""
    slow = chain(0.0893, 0.1092)
    assert markov_bdp_bound.correlation_cost(slow) == pytest.approx(4 * np.log(0.9107 / 0.0893))
    assert markov_bdp_bound.largest_tilt(slow, 4.0) == 0.0
    assert markov_bdp_bound.largest_tilt(slow, 4.0, 10) == pytest.approx(0.4)
    assert markov_bdp_bound.largest_tilt(slow, 10.0) == pytest.approx(
        10.0 - markov_bdp_bound.correlation_cost(slow)
    )
