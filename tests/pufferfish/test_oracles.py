"""The theory's statements by enumeration, before and beside any code that uses them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import price
from hushmq.pufferfish.binary.stream_loss import optimal_noise
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles import (
    attack,
    both,
    count,
    from_sanitized,
    known_sets,
    lipschitz,
    local,
    path_probabilities,
    states,
)


def test_the_oracle_is_the_definition() -> None:
    """One tick: the loss is the tilt. Two: P(z|X_1) by hand."""
    assert attack(0.3, 0.2, local([(0.1, 0.2)]), informed=False).loss == pytest.approx(math.log(0.8 / 0.1))
    noise = np.array([[0.9, 0.1], [0.2, 0.8]])
    step = np.array([[0.7, 0.3], [0.2, 0.8]])
    by_hand = max(
        abs(math.log((noise[0, a] * (step @ noise)[0, b]) / (noise[1, a] * (step @ noise)[1, b])))
        for a in (0, 1)
        for b in (0, 1)
    )
    found = attack(0.3, 0.2, local([(0.1, 0.2)] * 2), informed=False, ticks=[0])
    assert found.loss == pytest.approx(by_hand)


@pytest.mark.parametrize(
    ("q", "r", "epsilon", "known", "informed"),
    [
        (0.2, 0.2, 4.0, {0: 0, 6: 0}, 4.3239),
        (0.028, 0.402, 3.677, {0: 1, 6: 1}, 6.2363),
    ],
)
def test_knowing_more_can_tell_more(
    q: float, r: float, epsilon: float, known: dict[int, int], informed: float
) -> None:
    """CGSSY Theorem 2 fails: of seven ticks, the adversary who knows the first and the last gains most."""
    noise = optimal_noise(BinaryTheta.point(q, r), epsilon, "prior")
    stream = local([(noise.rho0, noise.rho1)] * 7)
    assert attack(q, r, stream, informed=False).loss < epsilon
    found = attack(q, r, stream, informed=True, ticks=[3])
    assert found.loss == pytest.approx(informed, abs=5e-5)
    # In the symmetric chain both ends known to be 1 is as telling, about the other state.
    assert set(found.known) == set(known)
    assert found.known == known or q == r
    assert found.loss > epsilon + 0.3


@pytest.mark.parametrize("known", [{}, {0: 1}, {0: 0, 4: 1}, {4: 0}])
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.1), (0.05, 0.6), (0.8, 0.7)])
def test_no_mechanism_with_these_tilts_does_better_and_one_does_as_well(
    known: dict[int, int], q: float, r: float
) -> None:
    """Theorem 1 and 4 at one tick: the largest ratio over ALL likelihoods with given tilts, a linear program.

    For every mechanism, adaptive or not, the likelihood of an output given the path is such a function; and
    independent noise attains the optimum. So a bound 1e-6 smaller is no bound.
    """
    tau0, tau1, tick, n = [0.5, 0.0, 0.8, 0.3, 1.1], [0.4, 0.6, 0.2, 0.0, 0.9], 2, 5
    x, probability = states(n), path_probabilities(q, r, n)
    allowed = np.ones(2**n, dtype=bool)
    for t, state in known.items():
        allowed &= x[t] == state
    given = [np.where(allowed & (x[tick] == a), probability, 0.0) for a in (0, 1)]
    given = [weights / weights.sum() for weights in given]
    rows = []
    for path in range(2**n):
        for t in range(n):
            if not path >> t & 1:
                zero, one = np.eye(2**n)[path], np.eye(2**n)[path | 1 << t]
                rows += [zero - math.exp(tau0[t]) * one, one - math.exp(tau1[t]) * zero]
    for a in (0, 1):
        answer = linprog(-given[a], A_ub=rows, b_ub=np.zeros(len(rows)), A_eq=[given[1 - a]], b_eq=[1.0])
        best = math.log(-answer.fun)
        # The worst likelihood of the theorem: every tick tilted towards the state it speaks for.
        worst = np.zeros(2**n)
        for t in range(n):
            speaks_for = a if q + r <= 1 or (t - tick) % 2 == 0 else 1 - a
            tilt = tau0[t] if speaks_for == 0 else tau1[t]
            worst += np.where(x[t] == speaks_for, tilt, 0.0)
        attained = math.log(given[a] @ np.exp(worst) / (given[1 - a] @ np.exp(worst)))
        assert best == pytest.approx(attained, abs=1e-7)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize(("q", "r"), [(0.1, 0.25), (0.4, 0.05), (0.9, 0.6)])
def test_random_mechanisms_stay_within_the_price(adversary: str, q: float, r: float) -> None:
    """Theorems 1 and 4: no mechanism with the timeline's tilts loses more than its price."""
    rng = np.random.default_rng(7)
    tau0, tau1 = rng.uniform(0, 1, 5), rng.uniform(0, 1, 5)
    mechanism = lipschitz(rng, list(tau0), list(tau1), 40)
    entries = [Entry(t + 1, t + 1, tau0[t], tau1[t]) for t in range(5)]
    found = attack(q, r, mechanism, informed=adversary == "informed")
    priced = price(entries, BinaryTheta.point(q, r), adversary, span=(1, 5)).epsilon
    assert 0.3 * priced < found.loss <= priced


def test_amplification_is_the_tilt_of_a_count_and_no_less() -> None:
    """Theorem 8: flipping one state changes a count of sanitized bits by amplified(noise, 1/s), attained."""
    noise, scale, n = BinaryNoise(0.3, 0.15), 0.7, 4
    release = from_sanitized([(noise.rho0, noise.rho1)] * n, count(n, 0, n - 1, scale))
    x = states(n)
    changes = [
        np.abs(np.log(release[:, path] / release[:, path | 1 << t])).max()
        for path in range(2**n)
        for t in range(n)
        if x[t][path] == 0
    ]
    assert max(changes) == pytest.approx(noise.amplified(1 / scale), abs=1e-9)
    assert max(changes) <= noise.amplified(1 / scale)


def test_a_release_from_sanitized_data_costs_its_amplified_tilt() -> None:
    """THEORY of audiences: the public account of a count over the sanitized stream, exactly."""
    q, r, noise, scale, n = 0.15, 0.25, BinaryNoise(0.3, 0.15), 0.7, 6
    release = from_sanitized([(noise.rho0, noise.rho1)] * n, count(n, 1, 4, scale))
    tilt = noise.amplified(1 / scale)
    for adversary in ("prior", "informed"):
        priced = price([Entry(2, 5, tilt, tilt)], BinaryTheta.point(q, r), adversary, span=(1, n))
        found = attack(q, r, release, informed=adversary == "informed")
        # The two directions of the release differ; the larger one is what amplified gives.
        assert found.loss <= priced.epsilon
        assert found.loss > 0.9 * priced.epsilon


def test_known_sets_are_all_there() -> None:
    """Each other tick is unknown, known to be 0, or known to be 1."""
    assert len(list(known_sets(4, 1, informed=True))) == 3**3
    assert list(known_sets(4, 1, informed=False)) == [{}]


def test_two_mechanisms_together_multiply() -> None:
    """Publishing both outputs multiplies likelihoods."""
    one, other = local([(0.1, 0.2), None]), count(2, 0, 1, 2.0)
    joint = both(one, other)
    assert joint.shape == (2 * 3, 4)
    assert np.allclose(joint[4], one[1] * other[1])
