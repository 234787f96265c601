"""Attackers against all paths and outputs of short streams, listed one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hushmq.evaluation.attackers import exact, forward_backward, single_bit, viterbi
from hushmq.evaluation.attackers.exact import KnownState
from hushmq.evaluation.attackers.hidden import Floats, Hidden, States
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from tests.pufferfish.oracles import local, path_probabilities, states

N = 7
HIDDEN = [
    pytest.param(Hidden(0.2, 0.2, BinaryNoise(0.1641, 0.1641)), id="symmetric"),
    pytest.param(Hidden(0.0893, 0.1092, BinaryNoise(0.35, 0.28)), id="heart rate"),
    pytest.param(Hidden(0.028, 0.402, BinaryNoise(0.4975, 0.0635)), id="lopsided"),
    pytest.param(Hidden(0.7, 0.6, BinaryNoise(0.2, 0.3)), id="alternating"),
]


def outputs(n: int = N) -> States:
    """All outputs, in the order of `oracles.local`."""
    return np.array(list(itertools.product((0, 1), repeat=n)), dtype=np.uint8)


def joint(hidden: Hidden, n: int = N) -> Floats:
    """P(path, output), a row per output of `outputs` and a column per path of `oracles.states`."""
    noise = (hidden.noise.rho0, hidden.noise.rho1)
    return local([noise] * n) * path_probabilities(hidden.q, hidden.r, n)


def told(known: dict[int, int], n: int = N) -> NDArray[np.int8]:
    """The known states as the forward–backward attacker takes them, the same for every output."""
    row = np.full(n, forward_backward.UNKNOWN, dtype=np.int8)
    for tick, state in known.items():
        row[tick] = state
    return np.tile(row, (2**n, 1))


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("known", [{}, {0: 1}, {1: 0, 5: 1}, {2: 1, 3: 1, 6: 0}])
def test_forward_backward_is_bayes_over_all_paths(hidden: Hidden, known: dict[int, int]) -> None:
    """Every posterior at every tick of every output, with and without known states, to 1e-12."""
    x = states(N)
    both = joint(hidden)
    both[:, [any(x[t, path] != state for t, state in known.items()) for path in range(2**N)]] = 0.0
    expected = np.stack([both[:, x[t] == 1].sum(axis=1) / both.sum(axis=1) for t in range(N)], axis=1)
    found = forward_backward.posteriors(hidden, outputs(), told(known))
    assert np.abs(found - expected).max() < 1e-12
    assert np.array_equal(forward_backward.guess(hidden, outputs(), told(known)), expected > 0.5)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_viterbi_finds_the_likeliest_of_all_paths(hidden: Hidden) -> None:
    """For every output, no path is likelier than the one found, to 1e-12 of its probability."""
    both = joint(hidden)
    found = viterbi.guess(hidden, outputs()).astype(int) @ (1 << np.arange(N))
    assert both[np.arange(2**N), found] == pytest.approx(both.max(axis=1), rel=1e-12)


@pytest.mark.parametrize("hidden", HIDDEN)
def test_the_single_bit_attacker_by_definition(hidden: Hidden) -> None:
    """Its success is the joint probability of output = state."""
    agree = states(N)[3][None, :] == outputs()[:, 3][:, None]
    assert single_bit.success(hidden) == pytest.approx(joint(hidden)[agree].sum(), abs=1e-12)
    assert np.array_equal(single_bit.guess(outputs()), outputs())


KNOWN: list[tuple[KnownState | None, KnownState | None]] = [
    (None, None),
    (KnownState(3, 1), None),
    (KnownState(3, 0), KnownState(3, 0)),
    (KnownState(1, 1), KnownState(2, 0)),
]


def likelihoods(hidden: Hidden, tick: int, known: dict[int, int]) -> tuple[Floats, Floats]:
    """P(X_tick = a | known), and P(output | X_tick = a, known) row by a, from all paths."""
    x, probability = states(N), path_probabilities(hidden.q, hidden.r, N)
    fits = np.all([x[t] == state for t, state in known.items()] or [np.full(2**N, True)], axis=0)
    stream = local([(hidden.noise.rho0, hidden.noise.rho1)] * N)
    masses = [np.where(fits & (x[tick] == a), probability, 0.0) for a in (0, 1)]
    prior = np.array([mass.sum() for mass in masses])
    return prior / prior.sum(), np.array([stream @ mass / mass.sum() for mass in masses])


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize(("left", "right"), KNOWN)
def test_the_exact_attack_lists_all_outputs(
    hidden: Hidden, left: KnownState | None, right: KnownState | None
) -> None:
    """Success, loss and the chance of passing ε are those of the full list of outputs, to 1e-12."""
    known = {3 - left.distance: left.state} if left else {}
    known |= {3 + right.distance: right.state} if right else {}
    prior, likelihood = likelihoods(hidden, 3, known)
    found = exact.attack(hidden, 3, 3, left=left, right=right)
    assert found.success() == pytest.approx((prior[:, None] * likelihood).max(axis=0).sum(), abs=1e-12)
    change = np.abs(np.log(likelihood[0]) - np.log(likelihood[1]))
    assert found.loss() == pytest.approx(change.max(), abs=1e-12)
    for epsilon in (0.3, 0.9 * change.max(), 1.1 * change.max()):
        # Odds that change by ε up to rounding may fall on either side, so none is near.
        assert np.abs(change - epsilon).min() > 1e-9
        expected = prior @ likelihood[:, change > epsilon].sum(axis=1)
        assert found.probability_above(epsilon) == pytest.approx(expected, abs=1e-12)


def test_the_cited_case_of_the_informed_adversary() -> None:
    """docs/theory.md: θ=0.2, ε=4 and their noise; X_1=X_7=0 known, X_4 attacked: 4.3239, beyond the claim."""
    hidden = Hidden(0.2, 0.2, BinaryNoise(0.1641457, 0.1641457))
    found = exact.attack(hidden, 3, 3, left=KnownState(3, 0), right=KnownState(3, 0))
    assert found.loss() == pytest.approx(4.3239, abs=5e-5)
    assert exact.attack(hidden, 3, 3).loss() < 4.0
    assert 0.0 < found.probability_above(4.0) < 1.0


def test_a_stream_far_too_long_to_list() -> None:
    """Thirty ticks are exact too: more ticks never hurt the attacker, and the middle one converges."""
    hidden = Hidden(0.1, 0.1, BinaryNoise(0.38, 0.38))
    found = [exact.attack(hidden, n, n).success() for n in (0, 2, 6, 14, 15)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(single_bit.success(hidden), abs=1e-12)
    assert found[-1] - found[-2] < 1e-4


def test_simulated_streams_are_the_chain_and_the_noise() -> None:
    """Frequencies of transitions and flips within six standard errors; a tenth off would be far outside."""
    hidden = Hidden(0.0893, 0.1092, BinaryNoise(0.35, 0.28))
    rng = np.random.default_rng(1)
    paths = hidden.paths(200, 2000, rng)
    sanitized = hidden.sanitize(paths, rng)
    now, then = paths[:, :-1], paths[:, 1:]
    for events, probability in (
        (then[now == 0] == 1, hidden.q),
        (then[now == 1] == 0, hidden.r),
        (sanitized[paths == 0] == 1, hidden.noise.rho0),
        (sanitized[paths == 1] == 0, hidden.noise.rho1),
    ):
        error = math.sqrt(probability * (1 - probability) / events.size)
        assert abs(events.mean() - probability) < 6 * error < 0.1 * probability
    # Neighbouring streams begin independently; the first tick is stationary.
    first = paths[:, 0].mean()
    assert abs(first - hidden.stationary[1]) < 6 * math.sqrt(0.25 / 200)
