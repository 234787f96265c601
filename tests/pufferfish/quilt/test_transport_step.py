"""One step of the tilted quilt: every plan is a proof, and the greedy plan is (nearly) the best proof."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hushmq.pufferfish.quilt.endless_quilt import transport_orders
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.transport_step import TransportStep, pairs_of
from tests.pufferfish.oracles_categorical import one_step


def random_chain(rng: np.random.Generator, k: int) -> Chain:
    return Chain(rng.dirichlet(np.full(k, 0.7), size=k) * 0.98 + 0.02 / k)


def random_distance(rng: np.random.Generator, k: int) -> np.ndarray:
    """A quasi-metric: direct costs, shortened by detours."""
    D = rng.uniform(0.1, 1.5, size=(k, k))
    np.fill_diagonal(D, 0.0)
    for via in range(k):
        D = np.minimum(D, D[:, [via]] + D[[via], :])
    return D


def best_plan(step: TransportStep, D: np.ndarray) -> tuple[np.ndarray, object]:
    """Newton's method in every order, and the best bound that the resulting plans prove."""
    bounds, plans = [], []
    for order in range(len(step.orders)):
        choice = np.full(step.pairs, order)
        guess = np.zeros(step.pairs)
        for _ in range(30):
            guess, _ = step.plan(D, np.minimum(guess, step.ceiling - 1e-9), choice)
        _, plan = step.plan(D, guess + 1e-11, choice)
        bounds.append(step.bound(D, plan))
        plans.append(plan)
    return np.min(bounds, axis=0), plans


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 3, 4])
def test_up_to_four_states_the_plan_solves_the_linear_program(k: int) -> None:
    """The best order's plan proves the optimum of the general linear program, and never less than it."""
    rng = np.random.default_rng(k)
    for _ in range(8):
        chain, D = random_chain(rng, k), random_distance(rng, k)
        step = TransportStep.of(chain.transition, transport_orders(chain))
        bound, _ = best_plan(step, D)
        exact = [
            one_step(chain.transition[x], chain.transition[y], D) for x, y in zip(*pairs_of(k), strict=True)
        ]
        assert bound == pytest.approx(exact, abs=1e-8)
        assert np.all(bound >= np.array(exact) - 1e-9)


@pytest.mark.slow
def test_with_more_states_the_plan_is_sound_and_close() -> None:
    """With six states no bound is below the linear program's, and on average the excess is below 2%."""
    rng = np.random.default_rng(6)
    excess = []
    for _ in range(4):
        chain, D = random_chain(rng, 6), random_distance(rng, 6)
        step = TransportStep.of(chain.transition, transport_orders(chain))
        bound, _ = best_plan(step, D)
        exact = [
            one_step(chain.transition[x], chain.transition[y], D) for x, y in zip(*pairs_of(6), strict=True)
        ]
        assert np.all(bound >= np.array(exact) - 1e-9)
        excess += list(bound / exact - 1)
    assert np.mean(excess) < 0.02


def test_a_damaged_plan_proves_more_loss_never_less() -> None:
    """Whatever plan is handed in, the bound is never below the linear program: nothing rests on the planner."""
    rng = np.random.default_rng(0)
    chain, D = random_chain(rng, 4), random_distance(rng, 4)
    step = TransportStep.of(chain.transition, transport_orders(chain))
    exact = [one_step(chain.transition[x], chain.transition[y], D) for x, y in zip(*pairs_of(4), strict=True)]
    _, plans = best_plan(step, D)
    for plan in plans:
        for scale in (0.0, 0.9, 1.1, -1.0):
            damaged = replace(
                plan, mass=plan.mass * rng.uniform(min(scale, 1), max(scale, 1), plan.mass.shape)
            )
            assert np.all(step.bound(D, damaged) >= np.array(exact) - 1e-9)


def test_prices_are_the_derivative_of_the_bound() -> None:
    """A shipment's price times a small change of D is the change of log λ, to first order."""
    rng = np.random.default_rng(3)
    chain, D = random_chain(rng, 5), random_distance(rng, 5)
    step = TransportStep.of(chain.transition, transport_orders(chain))
    choice = np.zeros(step.pairs, dtype=np.intp)
    guess = np.zeros(step.pairs)
    for _ in range(30):
        guess, plan = step.plan(D, guess, choice)
    move = rng.normal(size=D.shape) * 1e-6
    np.fill_diagonal(move, 0.0)
    moved = guess
    for _ in range(5):
        moved, _ = step.plan(D + move, moved, choice)
    predicted = (plan.price * move[plan.source, plan.sink]).sum(axis=0)
    assert moved - guess == pytest.approx(predicted, abs=1e-10)


def test_equal_rows_reveal_nothing() -> None:
    """If the next state does not depend on this one, log λ is 0 up to the rounding that is added."""
    chain = Chain([[0.2, 0.8, 0.0], [0.2, 0.8, 0.0], [0.2, 0.8, 0.0]])
    step = TransportStep.of(chain.transition, np.array([[[0, 1, 2], [2, 1, 0]]]))
    D = 1.0 - np.eye(3)
    moved, plan = step.plan(D, np.zeros(6), np.zeros(6, dtype=np.intp))
    assert moved == pytest.approx(np.zeros(6), abs=1e-15)
    assert step.bound(D, plan) == pytest.approx(np.zeros(6), abs=2e-12)
