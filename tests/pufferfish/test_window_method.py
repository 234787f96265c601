"""The methods of choosing a window's noise: each keeps ε over all of Θ, and none allows more than the exact one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.quilt_influence import ChainInfluence
from hushmq.pufferfish.window_method import METHODS, Method, adversary_error

ends = st.tuples(st.floats(0.02, 0.48), st.floats(0.02, 0.48)).map(sorted)
lazy_boxes = st.builds(lambda q, r: BinaryTheta(*q, *r), ends, ends)
epsilons = st.sampled_from([0.5, 1.0, 3.0])


def chain(q: float, r: float) -> Chain:
    return Chain([[1 - q, q], [r, 1 - r]])


def inside(box: BinaryTheta, rng: np.random.Generator) -> tuple[float, float]:
    return float(rng.uniform(box.q_low, box.q_high)), float(rng.uniform(box.r_low, box.r_high))


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(lazy_boxes, epsilons, st.integers(0, 2**32))
def test_no_chain_of_the_box_needs_more_than_its_corner(box: BinaryTheta, epsilon: float, seed: int) -> None:
    """MQMExact of (q−, r−) is at least MQMExact of every chain sampled from Θ, and of its other corners."""
    scale = 1 / box.window_limit("mqm-exact", epsilon, "prior")
    rng = np.random.default_rng(seed)
    others = [(box.q_high, box.r_low), (box.q_low, box.r_high), (box.q_high, box.r_high)]
    for q, r in [*others, *(inside(box, rng) for _ in range(4))]:
        assert mqm.exact([chain(q, r)], None, epsilon).scale <= scale * (1 + 1e-9)


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5), st.integers(1, 30), st.integers(1, 30))
def test_every_influence_falls_in_q_and_in_r(q: float, r: float, a: int, b: int) -> None:
    """The theorem itself: a step of either probability away from 0 lowers the influence on every quilt."""
    here = ChainInfluence(chain(q, r)).at(100)(a, b)
    for step_q, step_r in ((0.01, 0.0), (0.0, 0.01)):
        if q + r + 0.01 <= 1:
            assert ChainInfluence(chain(q + step_q, r + step_r)).at(100)(a, b) <= here + 1e-9


def test_beyond_one_the_corner_does_not_decide() -> None:
    """Why mqm-exact is refused there: an influence rises again where q + r passes 1."""
    at_one, beyond = (ChainInfluence(chain(q, q)).at(100)(1, 1) for q in (0.5, 0.7))
    assert beyond > at_one + 0.1
    assert "q + r" in (BinaryTheta(0.4, 0.6, 0.4, 0.6).method_error("mqm-exact", "prior") or "")
    with pytest.raises(ValueError, match="q \\+ r"):
        BinaryTheta(0.4, 0.6, 0.4, 0.6).window_limit("mqm-exact", 1.0, "prior")


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(st.floats(0.02, 0.9), st.floats(0.02, 0.9)).map(sorted), ends, epsilons, st.integers(0, 2**32)
)
def test_the_class_of_a_box_is_no_better_than_its_chains(
    q: list[float], r: list[float], epsilon: float, seed: int
) -> None:
    """(π_min, gap) of Θ are at most those of every chain sampled from it: MQMApprox adds enough for all."""
    box = BinaryTheta(*q, *r)
    scale = 1 / box.window_limit("mqm-approx", epsilon, "prior")
    rng = np.random.default_rng(seed)
    corners = [
        (box.q_low, box.r_high),
        (box.q_high, box.r_low),
        (box.q_low, box.r_low),
        (box.q_high, box.r_high),
    ]
    for point in [*corners, *(inside(box, rng) for _ in range(4))]:
        found = mqm.approx(mqm.Mixing.of([chain(*point)]), None, epsilon).scale
        assert found <= scale * (1 + 1e-9)


@settings(deadline=None, max_examples=25)
@given(lazy_boxes, epsilons)
def test_none_allows_more_than_the_exact_one(box: BinaryTheta, epsilon: float) -> None:
    """The recursion is the loss itself, so for two states the tilted quilt adds least noise whatever Θ is."""
    exact = box.window_limit("tilted-quilt", epsilon, "prior")
    assert (
        box.window_limit("least-noise", epsilon, "prior")
        == exact
        == min(largest_tilts(box, epsilon, "prior"))
    )
    for method in ("mqm-exact", "mqm-approx"):
        tilt = box.window_limit(method, epsilon, "prior")
        assert tilt <= exact
        assert loss(box, tau0=tilt, tau1=tilt, adversary="prior") <= epsilon


@pytest.mark.parametrize("method", METHODS)
def test_quilts_do_not_hold_for_the_informed_adversary(method: Method) -> None:
    """Somebody who knows other states is not who the Markov quilt mechanism protects from, and it says so."""
    assert adversary_error(method, "undecided") is None
    reason = adversary_error(method, "informed")
    assert (reason is None) == (method in {"least-noise", "tilted-quilt"})
    assert reason is None or (method in reason and "informed" in reason)
    if reason is not None:
        with pytest.raises(ValueError, match="not for the informed one"):
            BinaryTheta(0.2, 0.3, 0.2, 0.3).window_limit(method, 1.0, "informed")
