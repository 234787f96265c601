"""MQMExact for a categorical Θ: the paper's for one chain, and at most the tilt that every chain of Θ allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import largest_tilt
from hushmq.pufferfish.categorical.interval_quilt import quilt_tilt
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish.categorical.test_contraction import binary_class
from tests.pufferfish.categorical.test_transition_intervals import THREE, around, member


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.3), (0.05, 0.4), (0.0893, 0.1092)])
def test_one_binary_chain_is_the_papers_algorithm(q: float, r: float, epsilon: float) -> None:
    """The same score as MQMExact on an endless stationary chain."""
    chain = Chain([[1 - q, q], [r, 1 - r]])
    assert quilt_tilt(binary_class(q, r), epsilon) == pytest.approx(
        1 / mqm.exact([chain], None, epsilon).scale, rel=1e-6
    )


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6), st.floats(0.2, 5))
def test_every_chain_of_the_class_is_kept(seed: int, epsilon: float) -> None:
    """No chain of Θ requires more noise than Θ gets."""
    rng = np.random.default_rng(seed)
    P = 0.5 * np.eye(3) + 0.5 * rng.dirichlet(np.ones(3) * 3, size=3)
    intervals = around(P, 0.03, rng)
    tau = quilt_tilt(CategoricalTheta.of(intervals), epsilon)
    assert tau <= (1 + 1e-9) / mqm.exact([Chain(member(intervals, rng))], None, epsilon).scale


def test_the_tilted_quilt_allows_more() -> None:
    """On a lazy chain by far; that is why it is the default."""
    theta = CategoricalTheta.of(TransitionIntervals.point(THREE))
    assert largest_tilt(theta, 1.0).tau > 1.5 * quilt_tilt(theta, 1.0) > 0


def test_a_class_that_never_forgets_gets_no_tilt() -> None:
    """Nothing is proved, so nothing may be spent."""
    frozen = TransitionIntervals(((0.9, 0.0), (0.0, 0.9)), ((1.0, 0.1), (0.1, 1.0)))
    assert quilt_tilt(CategoricalTheta.of(frozen), 1.0) == 0.0


def test_methods_by_name() -> None:
    """The window methods of a categorical Θ: their tilts, the largest by default, and the invalid ones."""
    theta = CategoricalTheta.of(TransitionIntervals.point(THREE))
    assert theta.window_limit("mqm-exact", 1.0, "prior") == quilt_tilt(theta, 1.0)
    assert theta.window_limit("tilted-quilt", 1.0, "prior") == largest_tilt(theta, 1.0).tau
    assert theta.window_limit("least-noise", 1.0, "prior") == largest_tilt(theta, 1.0).tau
    with pytest.raises(ValueError, match="needs an eigengap"):
        theta.window_limit("mqm-approx", 1.0, "prior")
    with pytest.raises(ValueError, match="not for the informed one: use tilted-quilt"):
        theta.window_limit("mqm-exact", 1.0, "informed")
    known = largest_tilt(theta, 1.0, informed=True).tau
    assert theta.window_limit("least-noise", 1.0, "informed") == known < largest_tilt(theta, 1.0).tau
