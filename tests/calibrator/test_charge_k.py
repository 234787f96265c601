"""The public account of streams of more than two states, against all paths and all outputs of short chains."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from hushmq.calibrator.ledger.debits import Debit, joint_tilt
from hushmq.calibrator.ledger.public_account import PublicAccount
from hushmq.calibrator.models.choose_model import read_noise
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.timeline.entry import Entry

K = 3
SYMMETRIC = np.full((K, K), 0.1) + 0.7 * np.eye(K)
UNEVEN = np.array([[0.7, 0.2, 0.1], [0.3, 0.5, 0.2], [0.1, 0.3, 0.6]])
RESPONSE = CategoricalNoise.response(K, 1.5)
LOPSIDED = CategoricalNoise(((0.6, 0.3, 0.1), (0.2, 0.6, 0.2), (0.25, 0.25, 0.5)))

Windows = Sequence[tuple[int, int, float]]
"""First tick, last tick, tilt on the sanitized states."""


def exact_loss(P: np.ndarray, emission: np.ndarray, windows: Windows, ticks: int) -> float:
    """By definition: the largest log ratio between two states of any tick, over all outputs of all windows.

    A histogram with Laplace noise has, at its extremes, a likelihood that rises by e^w for every state in a set S: all
    combinations of sets are tried, one for each window.
    """
    pi = np.linalg.matrix_power(P, 200)[0]
    paths = np.array(list(itertools.product(range(K), repeat=ticks)))
    prior = pi[paths[:, 0]] * np.prod(P[paths[:, :-1], paths[:, 1:]], axis=1)
    sets = [np.array(one, dtype=float) for one in itertools.product((0, 1), repeat=K)][1:-1]
    worst = 0.0
    for chosen in itertools.product(sets, repeat=len(windows)):
        seen = np.ones((ticks, K))
        for (first, last, w), favoured in zip(windows, chosen, strict=True):
            seen[first : last + 1] *= np.exp(w * favoured)
        factors = seen @ emission.T  # by tick and true state
        weight = prior * np.prod(factors[np.arange(ticks), paths], axis=1)
        for tick in range(ticks):
            given = [weight[paths[:, tick] == u].sum() / prior[paths[:, tick] == u].sum() for u in range(K)]
            worst = max(worst, math.log(max(given) / min(given)))
    return worst


def claimed(P: np.ndarray, emission: CategoricalNoise, windows: Windows) -> float:
    account = PublicAccount(CategoricalTheta.of(TransitionIntervals.point(P.tolist())), "prior")
    for number, (first, last, w) in enumerate(windows, start=1):
        account.charge(number, Debit(first, last, math.ceil(w * NANO), emission))
    return account.price().epsilon


CASES: list[Windows] = [
    [(1, 1, 0.6)],
    [(0, 4, 0.4)],
    [(0, 2, 0.5), (2, 4, 0.3)],
    [(0, 1, 0.8), (3, 4, 0.8)],
    [(0, 4, 0.2), (1, 3, 0.5)],
]


@pytest.mark.parametrize("windows", CASES)
@pytest.mark.parametrize("emission", [RESPONSE, LOPSIDED], ids=["response", "lopsided"])
@pytest.mark.parametrize("P", [SYMMETRIC, UNEVEN], ids=["symmetric", "uneven"])
def test_the_account_is_never_below_what_can_be_inferred(
    P: np.ndarray, emission: CategoricalNoise, windows: Windows
) -> None:
    """Overlaps, gaps and neighbours together: the price is at least the loss by definition."""
    assert claimed(P, emission, windows) >= exact_loss(P, np.array(emission.rows), windows, 5) - 1e-12


@pytest.mark.parametrize("windows", CASES)
def test_the_account_is_exact_where_states_are_alike(windows: Windows) -> None:
    """For a chain and noise that treat all states alike the price is the loss, and 1% less would be false."""
    exact = exact_loss(SYMMETRIC, np.array(RESPONSE.rows), windows, 5)
    assert claimed(SYMMETRIC, RESPONSE, windows) == pytest.approx(exact, rel=1e-6)
    less = [(first, last, 0.99 * w) for first, last, w in windows]
    assert claimed(SYMMETRIC, RESPONSE, less) < exact


def test_things_counted_from_the_same_states_are_amplified_together() -> None:
    """The sum of what each entry would cost alone is less than what they tell together."""
    w = 0.4
    alone = 2 * RESPONSE.amplified(w)
    together = joint_tilt(2 * math.ceil(w * NANO), [RESPONSE])
    exact = exact_loss(SYMMETRIC, np.array(RESPONSE.rows), [(0, 0, w), (0, 0, w)], 2)
    assert alone < exact <= together + 1e-9


def test_the_least_noise_decides() -> None:
    """Behind several noises a tick costs what it costs behind the least."""
    bold = CategoricalNoise.response(K, 3.0)
    assert joint_tilt(NANO // 2, [RESPONSE, bold]) == joint_tilt(NANO // 2, [bold])


def test_a_class_costs_at_least_each_of_its_chains() -> None:
    """A wider Θ prices the same history no lower."""
    around = CategoricalTheta.of(
        TransitionIntervals(
            tuple(tuple((row * 0.9).tolist()) for row in UNEVEN),
            tuple(tuple(np.minimum(1, row * 1.1).tolist()) for row in UNEVEN),
        )
    )
    wide = PublicAccount(around, "prior")
    wide.charge(1, Debit(0, 4, NANO // 2, RESPONSE))
    assert wide.price().epsilon > claimed(UNEVEN, RESPONSE, [(0, 4, 0.5)])


@pytest.mark.parametrize("noise", [RESPONSE, LOPSIDED])
def test_noise_is_read_as_it_was_written(noise: CategoricalNoise) -> None:
    """Exactly, and two different matrices have different fingerprints."""
    assert read_noise(noise.as_json()) == noise
    assert noise.fingerprint != CategoricalNoise.response(K, 1.5000001).fingerprint
    assert noise.signal > 0


def test_two_rows_stand_for_all_where_states_can_be_exchanged() -> None:
    """The quick way for randomized response gives what the whole matrix gives."""
    for w in (0.1, 1.0, 5.0):
        by_hand = max(
            math.log(
                (1 + math.expm1(w) * sum(RESPONSE.rows[u][z] for z in s))
                / (1 + math.expm1(w) * sum(RESPONSE.rows[v][z] for z in s))
            )
            for u, v in itertools.permutations(range(K), 2)
            for size in (1, 2)
            for s in itertools.combinations(range(K), size)
        )
        assert RESPONSE.amplified(w) == pytest.approx(by_hand, rel=1e-9)
    assert RESPONSE.tilts == pytest.approx((1.5, 1.5))


def test_more_states_cost_more_against_the_informed_adversary() -> None:
    """A history is never priced below what the prior adversary learns from it."""
    theta, history = (
        CategoricalTheta.point(UNEVEN.tolist()),
        [Entry(0, 99, 0.1, 0.1), Entry(40, 60, 0.2, 0.2)],
    )
    prior, informed = (
        theta.timeline("prior", history).price().epsilon,
        theta.timeline("informed", history).price().epsilon,
    )
    assert 0 < prior <= informed < 2 * prior
