"""CGSSY's formulas: what they say, that `binary` says the same, and where the paper is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.pufferfish.binary import stream_loss as binary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.papers.cgssy import (
    corollary_1,
    corollary_2,
    corollary_2_exact,
    corollary_2_noise,
    success,
    success_as_printed,
    success_bound,
    theorem_1,
)
from tests.pufferfish.oracles import Array, attack, local, path_probabilities, states

lazy = st.floats(0.005, 0.495)
budget = st.floats(0.05, 8.0)


@given(lazy, lazy, st.floats(0.01, 0.49), st.floats(0.01, 0.5))
def test_theorem_1_is_the_loss_against_the_prior_adversary(
    q: float, r: float, rho0: float, rho1: float
) -> None:
    """The printed closed form and `binary.loss` agree to 1e-9."""
    noise = BinaryNoise(rho0, rho1)
    ours = binary.loss(BinaryTheta.point(q, r), tau0=noise.tau0, tau1=noise.tau1, adversary="prior")
    assert theorem_1(q, r, noise) == pytest.approx(ours, abs=1e-9)


@pytest.mark.parametrize(("q", "r"), [(0.2, 0.35), (0.45, 0.3)])
def test_theorem_1_bounds_every_output_of_a_chain_and_is_nearly_reached(q: float, r: float) -> None:
    """Eight ticks, all outputs by enumeration: never above, within 1% at the middle; a bound 1% lower would fail."""
    noise = BinaryNoise(0.35, 0.25)
    found = attack(q, r, local([(noise.rho0, noise.rho1)] * 8), informed=False)
    stated = theorem_1(q, r, noise)
    assert 0.99 * stated < found.loss <= stated
    assert found.tick in {3, 4}


@given(lazy, lazy, budget)
def test_the_constraints_are_the_limits_of_the_tilts(q: float, r: float, epsilon: float) -> None:
    """Noise on both of Corollary 1's lines has the loss ε by Theorem 1, to 1e-9."""
    tau0, tau1 = binary.largest_tilts(BinaryTheta.point(q, r), epsilon, "prior")
    whole = math.expm1(tau0 + tau1)
    rho0, rho1 = math.expm1(tau0) / whole, math.expm1(tau1) / whole
    if max(rho0, rho1) <= 0.5:
        assert theorem_1(q, r, BinaryNoise(rho0, rho1)) == pytest.approx(epsilon, abs=1e-9)


@pytest.mark.parametrize(
    ("q", "r", "epsilon"),
    [(0.2, 0.35, 0.5), (0.2, 0.35, 2.0), (0.0893, 0.1092, 4.0), (0.028, 0.402, 3.677), (0.45, 0.02, 1.0)],
)
def test_corollary_1_is_the_best_of_a_grid(q: float, r: float, epsilon: float) -> None:
    """Within ε, and no noise of a grid on [0, 1/2]² within ε flips a smaller share; 1% less of it is not within ε."""

    def share(rho0: float, rho1: float) -> float:
        return (r * rho0 + q * rho1) / (q + r)

    best = corollary_1(q, r, epsilon)
    assert max(best.rho0, best.rho1) <= 0.5
    assert theorem_1(q, r, best) == pytest.approx(epsilon, abs=1e-9)
    cheapest = math.inf
    for i in range(1, 150):
        for j in range(1, 151):
            if i + j < 300 and theorem_1(q, r, BinaryNoise(i / 300, j / 300)) <= epsilon:
                cheapest = min(cheapest, share(i / 300, j / 300))
    assert cheapest >= share(best.rho0, best.rho1) - 1e-12
    assert cheapest < share(best.rho0, best.rho1) + 0.02
    assert theorem_1(q, r, BinaryNoise(0.99 * best.rho0, 0.99 * best.rho1)) > epsilon


@given(lazy, st.floats(0.001, 0.499))
def test_corollary_2_is_theorem_1_for_symmetric_chains(theta: float, rho: float) -> None:
    """Both printed forms agree to 1e-9."""
    assert corollary_2(theta, rho) == pytest.approx(theorem_1(theta, theta, BinaryNoise(rho, rho)), abs=1e-9)


@given(lazy, budget)
def test_the_approximate_inverse_suffices_and_the_exact_one_is_the_least(
    theta: float, epsilon: float
) -> None:
    """The printed ρ keeps ε with noise to spare; the exact ρ has the loss ε, to 1e-9, and never more noise."""
    approximate, exact = corollary_2_noise(theta, epsilon), corollary_2_exact(theta, epsilon)
    assert exact < approximate <= 0.5
    assert corollary_2(theta, approximate) < epsilon
    assert corollary_2(theta, exact) == pytest.approx(epsilon, abs=1e-9)


@given(lazy, budget)
def test_the_approximate_inverse_is_the_printed_one(theta: float, epsilon: float) -> None:
    """The fraction as CGSSY print it, with its cancellation."""
    e = math.exp(epsilon)
    top = 4 + theta * (theta * e - 2) - math.sqrt(theta**2 * e * (4 + theta * (theta * e - 4)))
    printed = top / (8 + 2 * theta * (theta * e + theta - 4))
    assert corollary_2_noise(theta, epsilon) == pytest.approx(printed, abs=1e-9)


def test_figure_3_shows_what_the_approximation_loses() -> None:
    """θ = 0.35 at ε = 2: 0.334 instead of 0.233."""
    assert corollary_2_noise(0.35, 2.0) == pytest.approx(0.3341, abs=5e-5)
    assert corollary_2_exact(0.35, 2.0) == pytest.approx(0.2326, abs=5e-5)


def bdpl(q: float, r: float, stream: Array, tick: int, known: dict[int, int]) -> float:
    """The loss at one tick for one known set with its values, over all outputs, by summing over paths."""
    n = stream.shape[1].bit_length() - 1
    x, probability = states(n), path_probabilities(q, r, n)
    allowed = np.all([x[t] == state for t, state in known.items()] or [np.full(2**n, True)], axis=0)
    given = [np.where(allowed & (x[tick] == a), probability, 0.0) for a in (0, 1)]
    likelihood = [stream @ weights / weights.sum() for weights in given]
    return float(np.abs(np.log(likelihood[0] / likelihood[1])).max())


class TestTheorem2DoesNotHold:
    """CGSSY Theorem 2 claims that to forget a known state can only raise the loss."""

    def test_symmetric(self) -> None:
        """θ=0.2, ε=4, seven ticks: who knows X_1=X_7=0 reaches 4.3239 at X_4; who forgets one or both has less."""
        rho = corollary_2_exact(0.2, 4.0)
        assert rho == pytest.approx(0.1641, abs=5e-5)
        stream = local([(rho, rho)] * 7)
        both = bdpl(0.2, 0.2, stream, 3, {0: 0, 6: 0})
        one = bdpl(0.2, 0.2, stream, 3, {0: 0})
        none = bdpl(0.2, 0.2, stream, 3, {})
        assert both == pytest.approx(4.3239, abs=5e-5)
        assert none < one < both
        assert none < 4.0 < both
        assert attack(0.2, 0.2, stream, informed=True, ticks=[3]).loss == pytest.approx(both, abs=1e-12)
        ends = binary.loss(
            BinaryTheta.point(0.2, 0.2), tau0=math.log((1 - rho) / rho), tau1=math.log((1 - rho) / rho)
        )
        assert ends == pytest.approx(4.4109, abs=5e-5)

    def test_the_worst_output_contradicts_what_is_known(self) -> None:
        """Where the proof errs: outputs that agree with the known states are called obviously the worst.

        θ=0.2, ε=4, k−1 unknown states on each side of X_i, then zeros that are known. With outputs 0 the loss, their
        h, does rise with k, up to ε. With outputs 1 it passes ε, peaks at 4.4109, and falls back to ε from above.
        """
        rho = corollary_2_exact(0.2, 4.0)
        agree, contradict = (self._by_distance(0.2, rho, output, 30) for output in (0, 1))
        assert all(one < next_one < 4.0 for one, next_one in pairwise(agree[:15]))
        peak = contradict.index(max(contradict))
        assert contradict[2] == pytest.approx(4.3239, abs=5e-5)
        assert contradict[peak] == pytest.approx(4.4109, abs=5e-5)
        assert all(one > next_one > 4.0 for one, next_one in pairwise(contradict[peak:15]))
        assert agree[-1] == pytest.approx(4.0, abs=1e-6)
        assert contradict[-1] == pytest.approx(4.0, abs=1e-6)

    @staticmethod
    def _by_distance(theta: float, rho: float, output: int, farthest: int) -> list[float]:
        """log P(outputs | X_i = output, known)/P(outputs | X_i ≠ output, known) for known zeros 1, 2, … away."""
        step = np.array([[1 - theta, theta], [theta, 1 - theta]])
        emitted = np.where(np.arange(2) == output, 1 - rho, rho)
        seen = known = np.array([1.0, 0.0])
        losses = []
        for _ in range(farthest):
            seen, known = step @ seen, step @ known
            side = seen / known
            losses.append(math.log((1 - rho) / rho) + 2 * math.log(side[output] / side[1 - output]))
            seen = emitted * seen
        return losses

    def test_asymmetric(self) -> None:
        """q=.028, r=.402, ε=3.677, noise where both constraints are tight: who knows X_1=X_7=1 reaches 6.2363."""
        q, r, epsilon = 0.028, 0.402, 3.677
        noise = binary.optimal_noise(BinaryTheta.point(q, r), epsilon, "prior")
        assert theorem_1(q, r, noise) == pytest.approx(epsilon, abs=1e-9)
        stream = local([(noise.rho0, noise.rho1)] * 7)
        assert bdpl(q, r, stream, 3, {}) < epsilon
        assert bdpl(q, r, stream, 3, {0: 1, 6: 1}) == pytest.approx(6.2363, abs=5e-5)

    def test_the_heart_rate_of_the_paper(self) -> None:
        """q=.0893, r=.1092: the noise of Corollary 1 for ε=4 really loses 4.6812."""
        noise = corollary_1(0.0893, 0.1092, 4.0)
        informed = binary.loss(BinaryTheta.point(0.0893, 0.1092), tau0=noise.tau0, tau1=noise.tau1)
        assert informed == pytest.approx(4.6812, abs=5e-5)


def right_guesses(q: float, r: float, noise: BinaryNoise, n: int) -> tuple[float, float]:
    """How often the best attacker names the middle state, and how sure any output makes them, by enumeration."""
    stream, x = local([(noise.rho0, noise.rho1)] * n), states(n)
    probability = path_probabilities(q, r, n)
    joint = np.array([stream @ np.where(x[n // 2] == a, probability, 0.0) for a in (0, 1)])
    return float(joint.max(axis=0).sum()), float((joint.max(axis=0) / joint.sum(axis=0)).max())


@pytest.mark.parametrize(("q", "r"), [(0.2384, 0.3831), (0.4, 0.05), (0.2, 0.2)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_no_attacker_is_right_more_often_than_the_bound(q: float, r: float, epsilon: float) -> None:
    """The best attacker on seven ticks, by enumeration; the surest output comes near, so 10% less is no bound."""
    noise = binary.optimal_noise(BinaryTheta.point(q, r), epsilon, "prior")
    often, sure = right_guesses(q, r, noise, 7)
    bound = success_bound(epsilon, q, r)
    assert often <= sure <= bound
    assert sure > 0.9 * bound


def test_the_printed_bound_fails_for_the_more_frequent_state() -> None:
    """The paper's second recording at ε = 0.5: always guessing the same state is right more often than 'possible'."""
    q, r = 0.2384, 0.3831
    guess = max(q, r) / (q + r)
    assert success_as_printed(0.5, q, r) < guess < success_bound(0.5, q, r)
    noise = binary.optimal_noise(BinaryTheta.point(q, r), 0.5, "prior")
    assert right_guesses(q, r, noise, 7)[0] >= guess


def test_success_with_equal_odds() -> None:
    """ε = 0.5 gives the paper's 0.622, and a symmetric chain gives the same by all three."""
    assert success(0.5) == pytest.approx(0.622, abs=5e-4)
    assert success_as_printed(0.5, 0.2, 0.2) == success_bound(0.5, 0.2, 0.2) == success(0.5)
    assert success(1e6) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: theorem_1(0.5, 0.1, BinaryNoise(0.1, 0.1)), r"^q is 0.5; .* inside \(0, 1/2\)"),
        (lambda: theorem_1(0.1, math.nan, BinaryNoise(0.1, 0.1)), r"^r is nan"),
        (lambda: theorem_1(0.1, 0.1, BinaryNoise(0.6, 0.1)), r"^noise is .* up to 1/2"),
        (lambda: corollary_1(0.1, 0.1, 0.0), r"^epsilon is 0.0"),
        (lambda: corollary_2(0.1, 0.0), r"^rho is 0.0"),
        (lambda: corollary_2_noise(0.0, 1.0), r"^q is 0.0"),
        (lambda: corollary_2_noise(0.1, 1000.0), r"^epsilon is 1000.0"),
        (lambda: corollary_2_exact(0.1, -1.0), r"^epsilon is -1.0"),
        (lambda: success(-0.1), r"^epsilon is -0.1"),
        (lambda: success_bound(math.nan, 0.1, 0.1), r"^epsilon is nan"),
    ],
)
def test_bad_values_are_named(make: Callable[[], object], message: str) -> None:
    """Each bad value is refused with one message naming it."""
    with pytest.raises(ValueError, match=message):
        make()
