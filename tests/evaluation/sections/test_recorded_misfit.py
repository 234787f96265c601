"""Models of higher order against closed forms and enumeration, and the attackers who use them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from hushmq.evaluation.attackers.bands import features, guesses
from hushmq.evaluation.sections.higher_order import Model
from hushmq.evaluation.sections.recorded_misfit import attack, correlations, covering, worst
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.evaluation.conftest import Result
from tests.recordings import needs_data

N10 = Chain([[1 - 0.0893, 0.0893], [0.1092, 1 - 0.1092]])
THETA = BinaryTheta.point(0.0893, 0.1092)
NOISE = BinaryNoise(0.3, 0.2)


def test_order_one_is_the_chain() -> None:
    """Fitted to a long sample, order 1 is the chain; its loss for constant outputs is the closed form's."""
    model = Model.fit(N10.sample(400_000, np.random.default_rng(1)), 1)
    assert model.chain.transition == pytest.approx(N10.transition, abs=0.004)
    exact = Model(1, np.array([0.0893, 1 - 0.1092]))
    for noise in (NOISE, BinaryNoise(0.4, 0.45)):
        assert worst(exact, noise) == pytest.approx(
            loss(THETA, tau0=noise.tau0, tau1=noise.tau1, adversary="prior"), rel=1e-9
        )


def test_a_higher_order_that_is_not_one_changes_nothing() -> None:
    """An order-3 model whose contexts all say what order 1 says loses the same."""
    flat = Model(3, np.where(np.arange(8) & 1, 1 - 0.1092, 0.0893))
    plain = Model(1, np.array([0.0893, 1 - 0.1092]))
    assert worst(flat, NOISE) == pytest.approx(worst(plain, NOISE), rel=1e-9)


def test_posteriors_by_enumeration() -> None:
    """Forward–backward over contexts is Bayes' rule over all paths."""
    rng = np.random.default_rng(5)
    model = Model(2, rng.uniform(0.1, 0.9, 4))
    seen = np.array([0, 1, 1, 0, 1])
    law = model.law
    weights = np.zeros((2, len(seen)))
    # A path is the context at the first tick (its older bit is a tick before) and the bits that follow.
    for context, *rest in itertools.product(range(4), *[range(2)] * (len(seen) - 1)):
        bits, weight, now = [context & 1], law[context], context
        for bit in rest:
            weight *= model.ones[now] if bit else 1 - model.ones[now]
            now = (now << 1 | bit) & 3
            bits.append(bit)
        for bit, z in zip(bits, seen.tolist(), strict=True):
            flip = NOISE.rho1 if bit else NOISE.rho0
            weight *= flip if bit != z else 1 - flip
        for t, bit in enumerate(bits):
            weights[bit, t] += weight
    assert model.posteriors(seen, NOISE) == pytest.approx(weights[1] / weights.sum(axis=0), rel=1e-9)


def test_constant_loss_is_real() -> None:
    """On a long all-zero output the posterior's shift in the middle tends to the constant loss."""
    model = Model(2, np.array([0.05, 0.6, 0.3, 0.9]))
    seen = np.zeros(2001, dtype=np.int64)
    p = model.posteriors(seen, NOISE)[1000]
    prior = model.law[1::2].sum()
    shift = np.log((1 - p) / p) - np.log((1 - prior) / prior)
    assert shift == pytest.approx(model.constant_loss(NOISE.tau0, 0), rel=1e-6)


def test_drift() -> None:
    """Between two chains that stay in 0 with .9 and .8, and in 1 alike, it is log .9/.8."""
    one, other = Model(1, np.array([0.1, 0.7])), Model(2, np.array([0.2, 0.5, 0.5, 0.7]))
    assert one.drift(other) == pytest.approx(np.log(0.9 / 0.8))


def test_covering() -> None:
    """A true chain needs no covering; a slow mixture does, and its λ^h then lies above."""
    rng = np.random.default_rng(2)
    pieces = [N10.sample(300_000, rng)]
    lam = 1 - covering(pieces, 5).q_low - covering(pieces, 5).r_low
    assert lam == pytest.approx(1 - 0.0893 - 0.1092, abs=0.01)
    slow = np.repeat(rng.integers(0, 2, 300), 200) ^ (rng.random(60_000) < 0.2)
    box = covering([slow], 20)
    lam = 1 - box.q_low - box.r_low
    assert all(
        lam**h >= c - 1e-9 for h, c in zip(range(1, 21), correlations([slow], range(1, 21)), strict=True)
    )
    assert lam > correlations([slow], [1])[0] + 0.1


def test_a_first_order_attacker_keeps_within_epsilon() -> None:
    """On data of the chain itself no attack moves the log odds beyond ε."""
    bits = N10.sample(5000, np.random.default_rng(3))
    model = Model(1, np.array([0.0893, 1 - 0.1092]))
    found = attack(model, bits, optimal_noise(THETA, 2.0), np.random.default_rng(4))
    assert 0.5 < found.moved <= 2.0
    assert found.right > 0.55


def test_bands() -> None:
    """A band's feature is the sum over its lags on both sides; a larger lag means more columns."""
    seen = np.array([1, 0, 0, 0, 0, 0, 0, 0, 1, 0])
    X = features(seen, 4)
    assert X.shape == (10, 5)
    centred = seen - 0.2
    assert X[4, 4] == pytest.approx((centred[0] + centred[1] + centred[7] + centred[8]) / 2)
    assert features(seen, 3)[5, 4] == pytest.approx((centred[2] + centred[8]) / np.sqrt(2))


def test_the_free_attacker_learns_what_there_is() -> None:
    """On slow data large lags beat small ones by far; on data without memory neither beats a coin."""
    rng = np.random.default_rng(8)
    slow = np.repeat(rng.integers(0, 2, 400), 100)
    told = np.arange(len(slow)) // 1000 % 2 == 0
    right = {}
    for name, states in (("slow", slow), ("none", rng.integers(0, 2, len(slow)))):
        seen = states ^ (rng.random(len(states)) < 0.4)
        for reach in (1, 50):
            right[name, reach] = ((guesses(states, seen, reach, told) > 0.5) == (states[~told] == 1)).mean()
    assert right["slow", 50] > right["slow", 1] + 0.1
    assert right["none", 50] == pytest.approx(0.6, abs=0.02)


class TestReal:
    """On the recordings."""

    pytestmark = needs_data

    @pytest.mark.slow
    def test_numbers(self, quick: Callable[..., Result]) -> None:
        """N10 is as THEORY has it, and noise for lag 1 loses more than promised under a longer memory."""
        result = quick("misfit")
        ten = next(row for row in result.table("correlation") if row["recording"] == "N10")
        assert ten["lag 10"] == pytest.approx(0.535, abs=0.001)
        assert ten["λ^10"] == pytest.approx(0.109, abs=0.001)
        first, longer = result.table("orders")
        assert first["loss, at least"] <= 2.0 < longer["loss, at least"]
        assert len(result.findings("loses")) == 2
        covered = result.table("covering")
        assert [row["covers lags to"] for row in covered] == [1, 10, 100]
        losses = [row["loss, at least"] for row in covered]
        assert losses == sorted(losses, reverse=True)
