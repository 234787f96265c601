"""Theorem 13: strided streams of k states, against linear programs over all likelihoods and all known states."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.informed_side import smallest_cross_ratio
from hushmq.pufferfish.categorical.strided_states import PARTS, strided_alpha
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.mobius.strided_steps import endless_loss
from hushmq.pufferfish.thinning.strided_chain import strided_loss
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.categorical.test_contraction import binary_class
from tests.pufferfish.categorical.test_transition_intervals import around, member

Array = NDArray[np.float64]
ADVERSARIES: tuple[Adversary, ...] = ("prior", "informed")


def joint_law(first: Array, kernels: Sequence[Array]) -> Array:
    """The probability of every path, one axis for each tick."""
    k, ticks = len(first), len(kernels) + 1
    law = np.ones((k,) * ticks) * first.reshape((k,) + (1,) * (ticks - 1))
    for t, kernel in enumerate(kernels):
        shape = [1] * ticks
        shape[t] = shape[t + 1] = k
        law = law * kernel.reshape(shape)
    return law


def worst_published(
    law: Array, taus: Sequence[float], secret: int, known: Mapping[int, int] | None = None
) -> float:
    """The largest loss at one tick of any mechanism that reads the ticks with a tilt, given some known states.

    A linear program over the likelihood of every combination of published states, for every pair of states.
    """
    k, published = len(law), [t for t, tau in enumerate(taus) if tau]

    def given_state(law: Array, t: int, state: int) -> Array:
        return np.moveaxis(np.where(np.arange(k) == state, np.moveaxis(law, t, -1), 0.0), -1, t)

    for t, state in (known or {}).items():
        law = given_state(law, t, state)
    others = tuple(t for t in range(law.ndim) if t not in published)
    laws = [given_state(law, secret, x).sum(axis=others).ravel() for x in range(k)]
    laws = [one / one.sum() for one in laws if one.sum() > 1e-12]
    every = list(itertools.product(range(k), repeat=len(published)))
    index = {states: n for n, states in enumerate(every)}
    rows = []
    for states, place in itertools.product(every, range(len(published))):
        for other in set(range(k)) - {states[place]}:
            row = np.zeros(len(every))
            row[index[states]] = 1.0
            row[index[(*states[:place], other, *states[place + 1 :])]] = -math.exp(taus[published[place]])
            rows.append(row)
    found = 0.0
    for a, b in itertools.permutations(laws, 2):
        solved = linprog(-a, np.array(rows), np.zeros(len(rows)), b[None, :], [1.0], method="highs")
        found = max(found, math.log(-solved.fun))
    return found


def stationary(kernel: Array) -> Array:
    """The law that the kernel keeps."""
    law: Array = np.linalg.matrix_power(kernel, 4096)[0]
    return law / law.sum()


def random_kernel(rng: np.random.Generator, least: float = 0.04) -> Array:
    """Three states, some rare."""
    kernel: Array = (1 - 3 * least) * rng.dirichlet(np.full(3, 0.6), size=3) + least
    return kernel


def known_sets(rng: np.random.Generator, ticks: int, secret: int, count: int) -> list[dict[int, int]]:
    """Nothing, and some of the nearest known states on either side; what lies beyond them tells nothing more."""
    found: list[dict[int, int]] = [{}]
    for _ in range(count):
        sides = [range(secret), range(secret + 1, ticks)]
        places = [int(rng.choice(side)) for side in sides if len(side) and rng.random() < 0.7]
        found.append({t: int(rng.integers(3)) for t in places})
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("stride", "phase", "ticks"), [(2, 0, 5), (2, 1, 6), (3, 0, 7), (3, 2, 8)])
@pytest.mark.parametrize("width", [0.0, 0.02])
def test_no_mechanism_beats_the_price(stride: int, phase: int, ticks: int, width: float) -> None:
    """Secrets and known states at every tick, published or not; kernels that change within a class of chains."""
    rng = np.random.default_rng(100 * stride + phase)
    tau = 1.5 if width else 0.4
    centre = random_kernel(rng)
    intervals = around(centre, width, rng) if width else TransitionIntervals.point(centre.tolist())
    theta = CategoricalTheta.of(intervals)
    kernels = [member(intervals, rng) if width else centre for _ in range(ticks - 1)]
    law = joint_law(stationary(kernels[0]), kernels)
    taus = [tau if t % stride == phase else 0.0 for t in range(ticks)]
    entries = [Entry(0, sum(map(bool, taus)) - 1, tau, tau)]
    price = theta.timeline("informed", entries, stride=stride).price().epsilon
    assert price <= theta.constant_loss(tau, tau, "informed", stride=stride)
    for secret in range(ticks):
        for known in known_sets(rng, ticks, secret, 2):
            assert worst_published(law, taus, secret, known) <= price + 1e-7


def test_an_unpublished_tick_may_lose_more_than_every_published_one() -> None:
    """A rare state that tells what came before it and what follows it: two tilts at once, far above a published tick.

    The forgetting of the whole stride alone would allow 1.04 of the 1.85 that are lost there: its parts have to count.
    """
    kernel, tau = np.array([[0.937, 0.06, 0.003], [0.007, 0.01, 0.983], [0.888, 0.055, 0.057]]), 1.0
    law = joint_law(stationary(kernel), [kernel] * 2)
    before, between, after = (worst_published(law, [tau, 0.0, tau], secret) for secret in range(3))
    assert between > 1.8
    assert max(before, after) < 1.1
    theta = CategoricalTheta.point(kernel.tolist())
    whole = math.sqrt(smallest_cross_ratio(theta.forward.power(2)))
    assert tau + 4 * math.atanh((1 - whole) / (1 + whole) * math.tanh(tau / 4)) < 1.1
    assert between <= theta.timeline("prior", [Entry(0, 1, tau, tau)], stride=2).price().epsilon < 2.0


@pytest.mark.parametrize(("q", "r"), [(0.0893, 0.1092), (0.05, 0.3), (0.2, 0.25)])
@pytest.mark.parametrize("stride", [2, 5, 20, 200])
def test_two_states_lie_between_the_exact_loss_and_that_of_intervals(q: float, r: float, stride: int) -> None:
    """Theorem R3 is exact for one chain; Theorem R5 composes single steps, of which products are no worse."""
    theta = binary_class(q, r)
    found = theta.constant_loss(0.7, 0.7, "informed", stride=stride)
    assert strided_loss(q, r, 0.7, 0.7, stride=stride, adversary="informed") <= found
    # A longer stride is divided into parts, of which one does not count.
    room = 1.0 + 1e-9 if stride <= PARTS else 1.05
    assert found <= BinaryTheta.point(q, r).constant_loss(0.7, 0.7, "informed", stride=stride) * room


@pytest.mark.parametrize("stride", [2, 31, 64, 100, 1000])
def test_the_largest_tilts_have_the_loss_that_was_asked_for(stride: int) -> None:
    """Closed forms in both directions, and the price of a long history beneath them."""
    rng = np.random.default_rng(5)
    centre = 0.6 * np.eye(4) + 0.2 * rng.dirichlet(np.ones(4), size=4) + 0.05
    theta = CategoricalTheta.of(around(centre, 0.01, rng))
    for epsilon in (0.3, 1.0, 4.0):
        for adversary in ADVERSARIES:
            tau, _ = theta.largest_tilts(epsilon, adversary, stride=stride)
            assert epsilon * (1 - 1e-5) <= theta.constant_loss(tau, tau, adversary, stride=stride) <= epsilon
            history = theta.timeline(adversary, [Entry(0, 10_000, tau, tau)], stride=stride)
            assert epsilon * (1 - 1e-5) <= history.price().epsilon <= epsilon
            noise = theta.optimal_noise(epsilon, adversary, stride=stride)
            assert theta.constant_loss(*noise.tilts, adversary, stride=stride) <= epsilon


def test_a_wider_class_and_a_shorter_stride_forget_less() -> None:
    """α never falls with the width of Θ, nor rises where the stride is cut."""
    centre = 0.7 * np.eye(3) + 0.1
    alphas = []
    for width in (0.0, 0.01, 0.05):
        low, high = (
            np.clip(centre - width, 0.0, 1.0).tolist(),
            np.clip(centre + width, 0.0, 1.0).tolist(),
        )
        alphas.append([strided_alpha(CategoricalTheta.between(low, high), m) for m in (2, 4, 8, 16, 63)])
        assert alphas[-1] == sorted(alphas[-1])
    assert all(a >= b >= c for a, b, c in zip(*alphas, strict=True))


def test_the_undecided_adversary_also_learns_which_chain_it_is() -> None:
    """The odds spread is added, and leaves so much less."""
    centre = 0.7 * np.eye(3) + 0.1
    theta = CategoricalTheta.between((centre - 0.005).tolist(), (centre + 0.005).tolist())
    inside = theta.constant_loss(0.2, 0.2, "prior", stride=9)
    assert theta.constant_loss(0.2, 0.2, "undecided", stride=9) == pytest.approx(inside + theta.odds_spread)
    tau, _ = theta.largest_tilts(2.0, "undecided", stride=9)
    assert 0.0 < theta.constant_loss(tau, tau, "undecided", stride=9) <= 2.0
    assert theta.largest_tilts(theta.odds_spread, "undecided", stride=9) == (0.0, 0.0)


def test_a_price_at_some_ticks_covers_their_unpublished_neighbours() -> None:
    """A tick between two published ones may lose as much as the one in the next stride."""
    theta = CategoricalTheta.point((0.7 * np.eye(3) + 0.1).tolist())
    entries = [Entry(0, 9, 0.3, 0.3), Entry(10, 19, 2.0, 2.0)]
    whole = theta.timeline("informed", entries, stride=4)
    before = theta.timeline("informed", entries, (0, 9), stride=4)
    beside = theta.timeline("informed", entries, (10, 10), stride=4)
    assert whole.price().epsilon > before.price().epsilon >= 2.0
    assert before.price().epsilon <= beside.price().epsilon
    priced = whole.price_with(Entry(5, 5, 0.1, 0.1))
    whole.add(Entry(5, 5, 0.1, 0.1))
    assert whole.price() == priced


def test_strides_are_refused_where_nothing_is_proved() -> None:
    """Chains that may never forget, device windows beside a stride, and methods that are for every tick."""
    theta = CategoricalTheta.point((0.7 * np.eye(3) + 0.1).tolist())
    with pytest.raises(ValueError, match="device windows"):
        theta.optimal_noise(1.0, "prior", 0.01, stride=2)
    with pytest.raises(ValueError, match="mqm-exact"):
        theta.window_tilt("mqm-exact", 1.0, "prior", stride=2)
    with pytest.raises(ValueError, match="stride is 0"):
        theta.constant_loss(1.0, 1.0, "prior", stride=0)
    stuck = CategoricalTheta.between(np.zeros((3, 3)).tolist(), np.ones((3, 3)).tolist())
    assert stuck.constant_loss(0.1, 0.1, "prior", stride=8) == endless_loss(0.1, 0.0) == math.inf
    assert stuck.largest_tilts(1.0, "informed", stride=8) == (0.0, 0.0)
    with pytest.raises(ValueError, match="nothing is proved"):
        stuck.timeline("prior", stride=8)
