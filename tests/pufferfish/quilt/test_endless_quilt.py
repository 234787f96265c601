"""The tilted quilt on endless streams: never below the loss, never above MQMExact, exact for two states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary import stream_loss as binary
from hushmq.pufferfish.quilt import endless_quilt as endless
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.endless_quilt import (
    CertifiedLoss,
    certify_tilt,
    largest_tilt,
    over_pairs,
    side_solvers,
    uniform_tilt,
)
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.noise_lower_bound import noise_lower_bound
from hushmq.pufferfish.quilt.side_solver import SideSolver
from tests.pufferfish.oracles_categorical import histogram, losses, response, worst_mechanism
from tests.pufferfish.quilt.test_transport_step import random_chain

STICKY = Chain([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.02, 0.18, 0.8]])
RESTLESS = Chain([[0.1, 0.7, 0.2], [0.3, 0.1, 0.6], [0.6, 0.3, 0.1]])


def scale(chain: Chain, epsilon: float) -> float:
    return 1 / float(largest_tilt(side_solvers(chain), uniform_tilt(chain.k), epsilon).tilt.max())


def loss(chain: Chain, tau: float) -> float:
    return certify_tilt(side_solvers(chain), tau * uniform_tilt(chain.k)).loss


@pytest.mark.parametrize("chain", [STICKY, RESTLESS])
@pytest.mark.parametrize("tau", [0.2, 1.0])
def test_never_below_a_histogram(chain: Chain, tau: float) -> None:
    """No instant of a histogram with Laplace noise of scale 2/τ loses more than the bound for tilt τ."""
    assert losses(chain, 6, histogram(3, 6, 2 / tau)).max() <= loss(chain, tau)


@pytest.mark.parametrize("chain", [STICKY, RESTLESS])
@pytest.mark.parametrize("ticks", [None, [0, 1, 4]])
def test_never_below_randomized_response(chain: Chain, ticks: list[int] | None) -> None:
    """Nor does any transcript of independently perturbed ticks, with or without gaps."""
    tau = 0.7
    emission = (np.exp(tau) - 1) * np.eye(3) + 1
    emission /= emission.sum(axis=1, keepdims=True)
    assert losses(chain, 5, response(emission, 5, ticks)).max() <= loss(chain, tau)


@pytest.mark.parametrize("chain", [STICKY, RESTLESS])
def test_never_below_the_worst_mechanism(chain: Chain) -> None:
    """No mechanism at all with tilt τ per instant loses more."""
    assert max(worst_mechanism(chain, [0.8] * 4, i) for i in range(4)) <= loss(chain, 0.8)


def test_the_oracle_catches_a_bound_that_is_a_little_low() -> None:
    """On a chain that forgets in a step or two, four instants reach the bound within 2%: the tests above can fail."""
    chain = Chain([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]])
    true = worst_mechanism(chain, [0.5] * 5, 2)
    assert 0.98 * loss(chain, 0.5) < true <= loss(chain, 0.5)


@settings(max_examples=25, deadline=None)
@given(q=st.floats(0.01, 0.99), r=st.floats(0.01, 0.99), epsilon=st.floats(0.05, 8))
def test_binary_chains_are_exact(q: float, r: float, epsilon: float) -> None:
    """With two states the bound is the exact loss of `binary`, on both sides of q + r = 1."""
    chain = Chain([[1 - q, q], [r, 1 - r]])
    bound = largest_tilt(side_solvers(chain), uniform_tilt(2), epsilon)
    tau = float(bound.tilt.max())
    exact = binary.loss(binary.BinaryTheta.point(q, r), tau0=tau, tau1=tau, adversary="prior")
    assert bound.loss <= epsilon
    assert exact <= bound.loss
    assert exact == pytest.approx(epsilon, rel=1e-7)


@st.composite
def mixing_chains(draw: st.DrawFn) -> Chain:
    k = draw(st.integers(2, 5))
    entry = st.one_of(st.just(0.0), st.floats(1e-4, 1.0))
    rows = draw(st.lists(st.lists(entry, min_size=k, max_size=k), min_size=k, max_size=k))
    stay = draw(st.sampled_from([0.0, 0.5, 0.95]))
    P = np.array(rows) + 0.01 * np.roll(np.eye(k), 1, axis=1) + 0.01 * np.eye(k)
    return Chain(stay * np.eye(k) + (1 - stay) * P / P.sum(axis=1, keepdims=True))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(chain=mixing_chains(), epsilon=st.floats(0.1, 12))
def test_never_above_mqm_exact(chain: Chain, epsilon: float) -> None:
    """On every chain, sparse, slow or restless, the noise is at most that of the Markov quilt mechanism."""
    assert scale(chain, epsilon) <= mqm.exact([chain], None, epsilon).scale * (1 + 1e-9)


def check(bound: CertifiedLoss, chain: Chain) -> None:
    """The certificate, checked afresh: one step from R proves R, by plan or by quilt."""
    sides = side_solvers(chain)
    for side, proof in zip(sides, (bound.left, bound.right), strict=True):
        D = bound.tilt + side.as_matrix(proof.R)
        by_plan = side.step.bound(D, proof.plan)
        P = chain.transition if side is sides[1] else chain.reversal().transition
        for n, (x, y) in enumerate(np.argwhere(~np.eye(chain.k, dtype=bool))):
            h = int(proof.hops[n])
            if h > 1 or by_plan[n] > proof.R[n]:
                power = np.linalg.matrix_power(P, h)
                quilt = (h - 1) * bound.tilt.max() + np.log(np.max(power[x] / power[y]))
                assert quilt <= proof.R[n] + 1e-12


@settings(max_examples=15, deadline=None)
@given(chain=mixing_chains(), epsilon=st.floats(0.1, 6))
def test_what_is_returned_is_certified(chain: Chain, epsilon: float) -> None:
    """The returned R of each side proves itself again from nothing but the chain, the tilt and the plans."""
    bound = largest_tilt(side_solvers(chain), uniform_tilt(chain.k), epsilon)
    assert bound.loss <= epsilon
    check(bound, chain)


@pytest.mark.slow
def test_where_newton_fails_the_bound_is_found_by_descent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Newton's method the answer is the same to the precision of bisection, and certified as well."""
    right = scale(STICKY, 1.0)
    monkeypatch.setattr(endless, "_newton", lambda *_: None)
    monkeypatch.setattr(endless, "BISECTION_PRECISION", 1e-3)
    bound = largest_tilt(side_solvers(STICKY), uniform_tilt(3), 1.0)
    check(bound, STICKY)
    assert bound.loss <= 1.0
    assert right * (1 - 1e-9) <= 1 / bound.tilt.max() <= right * 1.005


def test_an_unproved_guess_is_not_returned() -> None:
    """A guess below the fixed point is refused: `certify` gives None or something that checks, never the guess."""
    bound = largest_tilt(side_solvers(STICKY), uniform_tilt(3), 1.0)
    side: SideSolver = side_solvers(STICKY)[1]
    assert side.certify(bound.tilt, bound.right.R) is not None
    assert side.certify(bound.tilt, bound.right.R * 0.98) is None
    assert side.certify(bound.tilt, np.full(6, np.nan)) is None


def test_independent_states_cost_only_their_own_tilt() -> None:
    """If states do not depend on each other the scale is 1/ε, as without correlation."""
    chain = Chain([[0.2, 0.3, 0.5]] * 3)
    assert scale(chain, 0.5) == pytest.approx(2.0, rel=1e-9)


def test_a_tilt_matrix_may_be_uneven() -> None:
    """Tilts that are smaller for some pairs lose less than the even tilt of their largest entry, never more."""
    distances = np.abs(np.subtract.outer(np.arange(3), np.arange(3))) / 2
    uneven = certify_tilt(side_solvers(STICKY), 0.8 * distances)
    assert uneven.loss < loss(STICKY, 0.8)
    assert uneven.loss >= float(np.max(over_pairs(0.8 * distances)))


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        ([[0.0, 1.0], [1.0, 0.0]], "period 2"),
        ([[1.0, 0.0], [0.5, 0.5]], "reducible"),
    ],
)
def test_a_chain_that_never_forgets_is_refused(transition: list[list[float]], message: str) -> None:
    """Where no noise helps on an endless stream, the reason is said."""
    with pytest.raises(ValueError, match=message):
        side_solvers(Chain(transition))


def test_losses_grow_with_tilt() -> None:
    """More tilt, more loss; loss and largest tilt are inverse to each other."""
    rng = np.random.default_rng(11)
    chain = random_chain(rng, 5)
    taus = [1 / scale(chain, epsilon) for epsilon in (0.2, 1.0, 4.0)]
    assert taus == sorted(taus)
    assert [loss(chain, tau) for tau in taus] == pytest.approx([0.2, 1.0, 4.0], rel=1e-6)


@pytest.mark.slow
def test_many_states_are_certified_as_well() -> None:
    """With too many pairs for a direct solve: the result is certified, below MQMExact and near the lower bound."""
    level = np.arange(27)
    near = np.exp(-np.abs(level[:, None] - level[None, :]) / 1.5) + 0.01
    chain = Chain(near / near.sum(axis=1, keepdims=True))
    bound = largest_tilt(side_solvers(chain), uniform_tilt(27), 1.0)
    assert bound.loss <= 1.0
    check(bound, chain)
    assert 1 / bound.tilt.max() <= 0.6 * mqm.exact([chain], None, 1.0).scale
    assert 1 / bound.tilt.max() <= 1.1 * noise_lower_bound([chain], None, 1.0).scale
