"""Dependent DP: the coefficient, what it promises, and where the promise fails."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.papers import dependent_privacy as dependent
from hushmq.pufferfish.papers.dependent_privacy import Dependence

COPY = Dependence([0, 1], np.eye(2))
UNRELATED = Dependence([0, 1], [[0.4, 0.6], [0.4, 0.6]])
SYMMETRIC = Dependence([0, 1], [[0.8, 0.2], [0.2, 0.8]])


def joint_loss(values: np.ndarray, joint: np.ndarray, sigma: float) -> float:
    """The loss about the first record when all are published with Laplace noise σ each, over all outputs.

    `values[c]` holds record c's possible values, `joint` the probability of each combination.
    """
    combinations = list(itertools.product(*(range(len(v)) for v in values)))
    records = np.array([[values[c][x] for c, x in enumerate(row)] for row in combinations])
    kernel = np.exp(-np.abs(records[:, None, :] - records[None, :, :]).sum(axis=2) / sigma)
    first = np.array([row[0] for row in combinations])
    weights = joint.reshape(-1)
    likelihoods = []
    for x in range(len(values[0])):
        given_x = np.where(first == x, weights, 0)
        likelihoods.append(np.log(kernel @ given_x / given_x.sum()))
    stacked = np.array(likelihoods)
    return float((stacked.max(axis=0) - stacked.min(axis=0)).max())


def star(own: list[float], others: list[Dependence]) -> np.ndarray:
    """The joint distribution of a record and others that depend on it alone."""
    joint = np.full(len(own), 1 / len(own))
    for one in others:
        joint = joint[..., None] * one.given.reshape(len(own), *[1] * (joint.ndim - 1), len(one.values))
    return joint


@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0])
def test_a_copy_has_coefficient_one_and_an_unrelated_record_none(sigma: float) -> None:
    """LCM: 0 ≤ ρ_ij ≤ 1, and both ends are reached."""
    assert dependent.coefficient(COPY, sigma) == pytest.approx(1)
    assert dependent.coefficient(UNRELATED, sigma) == pytest.approx(0, abs=1e-12)
    assert 0 < dependent.coefficient(SYMMETRIC, sigma) < 1


def test_half_a_copy_has_half_the_coefficient() -> None:
    """LCM section VI's example, D_j = D_i/2 + X/2: a change of D_i moves D_j by half its range."""
    grid = np.arange(21) / 20
    rows = [[1 / 11 if 10 * d <= n < 10 * d + 11 else 0.0 for n in range(21)] for d in (0, 1)]
    half = Dependence(grid, rows)
    assert half.width == 1
    assert dependent.coefficient(half, 0.7) == pytest.approx(0.5)
    assert dependent.sensitivity(1.0, [half], 0.7) == pytest.approx(1.5)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 4.0]))
def test_records_that_depend_on_one_alone_keep_epsilon(seed: int, epsilon: float) -> None:
    """Where the others are independent given record i, the scale from the dependent sensitivity is enough."""
    rng = np.random.default_rng(seed)
    own = sorted(rng.integers(0, 5, size=3).tolist())
    own[-1] = own[0] + 4
    others = [
        Dependence(np.cumsum(rng.integers(1, 3, size=3)), rng.dirichlet(np.ones(3), size=3)) for _ in range(2)
    ]
    scale = dependent.scale(4.0, others, epsilon).scale
    values = np.array([own, *(one.values for one in others)])
    assert joint_loss(values, star(own, others), scale) <= epsilon + 1e-9
    assert scale <= dependent.baseline(3, 4.0, epsilon).scale + sum(one.width for one in others) / epsilon


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_scale_is_tight_where_all_records_pull_together(epsilon: float) -> None:
    """Two-valued records that lean the same way lose exactly ε, and more with 1% less noise."""
    others = [SYMMETRIC, Dependence([0, 2], [[0.9, 0.1], [0.5, 0.5]])]
    scale = dependent.scale(1.0, others, epsilon).scale
    values = [np.array([0.0, 1.0]), *(one.values for one in others)]
    joint = star([0, 1], others)
    assert joint_loss(values, joint, scale) == pytest.approx(epsilon, rel=1e-9)
    assert joint_loss(values, joint, 0.99 * scale) > epsilon * 1.005


def test_coefficients_in_pairs_miss_what_records_say_together() -> None:
    """Three bits of even parity: every pair is independent, all coefficients are 0, and yet the loss exceeds ε."""
    parity = np.array([[[0.25 * ((x + y + z) % 2 == 0) for z in (0, 1)] for y in (0, 1)] for x in (0, 1)])
    pairwise = Dependence([0, 1], parity.sum(axis=2) / parity.sum(axis=(1, 2))[:, None])
    scale = dependent.scale(1.0, [pairwise, pairwise], 6.0).scale
    assert scale == pytest.approx(1 / 6)
    assert joint_loss(np.array([[0, 1]] * 3), parity, scale) > 6.0 + 1.0
    assert joint_loss(np.array([[0, 1]] * 3), parity, dependent.baseline(3, 1.0, 6.0).scale) <= 6.0 + 1e-9


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_the_baseline_covers_any_dependence(seed: int) -> None:
    """LCM Theorem 7: L·Δ/ε is enough for records of range Δ, however they depend."""
    rng = np.random.default_rng(seed)
    joint = rng.dirichlet(np.full(8, 0.3)).reshape(2, 2, 2) + 1e-9
    assert joint_loss(np.array([[0, 1]] * 3), joint, dependent.baseline(3, 1.0, 1.0).scale) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: dependent.baseline(0, 1.0, 1.0), "dependent is 0"),
        (lambda: dependent.baseline(2, 0.0, 1.0), "sensitivity 0"),
        (lambda: dependent.baseline(2, 1.0, 0.0), "epsilon is 0"),
        (lambda: dependent.coefficient(COPY, 0.0), "sigma is 0"),
        (lambda: dependent.scale(0.0, [COPY], 1.0), "width is 0"),
        (lambda: Dependence([0, float("nan")], np.eye(2)), "values must be a list of finite numbers"),
        (lambda: Dependence([0, 1], [[0.5, 0.4]]), "given row 0 sums to 0.9"),
    ],
)
def test_what_is_wrong_is_named(build, message: str) -> None:
    """A refusal names the setting and what would be right."""
    with pytest.raises(ValueError, match=message):
        build()


def test_a_record_that_cannot_change_leaks_nothing() -> None:
    """One value only: no width, no coefficient."""
    assert dependent.coefficient(Dependence([3], [[1.0], [1.0]]), 1.0) == 0
