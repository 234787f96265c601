"""Chains: what is refused, and the identities every chain obeys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.pufferfish.quilt.markov_chain import Chain

RUNNING = [[0.9, 0.1], [0.4, 0.6]]


@st.composite
def chains(draw: st.DrawFn, most: int = 6) -> Chain:
    k = draw(st.integers(2, most))
    entries = st.floats(1e-3, 1.0)
    rows = draw(st.lists(st.lists(entries, min_size=k, max_size=k), min_size=k, max_size=k))
    P = np.array(rows)
    return Chain(P / P.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("transition", "initial", "message"),
    [
        ([[0.9, 0.2], [0.4, 0.6]], None, r"transition row 0 sums to 1\.1; it must sum to 1"),
        ([[0.9, 0.1], [0.4, 0.59]], None, r"transition row 1 sums to 0\.99; it must sum to 1"),
        (
            [[1.1, -0.1], [0.4, 0.6]],
            None,
            r"transition row 0 contains -0\.1; probabilities are never negative",
        ),
        ([[0.9, 0.1]], None, r"shape \(1, 2\); it must be square"),
        ([[0.9, 0.1], [1.0]], None, r"equally long rows of numbers"),
        ([["a", "b"], ["c", "d"]], None, r"equally long rows of numbers"),
        ([[1.0]], None, r"at least 2"),
        ([[float("nan"), 1.0], [0.4, 0.6]], None, r"row 0 contains a value that is not a finite number"),
        (RUNNING, [0.5, 0.6], r"initial sums to 1\.1"),
        (RUNNING, [1.0], r"initial has shape \(1,\); it needs one probability for each of 2 states"),
        (RUNNING, [1.5, -0.5], r"initial contains -0\.5"),
    ],
)
def test_a_bad_chain_is_refused_by_name(transition: object, initial: object, message: str) -> None:
    """Every malformed chain gets one message that names the row and what it should be."""
    with pytest.raises(ValueError, match=message):
        Chain(transition, initial)  # type: ignore[arg-type]  # malformed on purpose


def test_a_chain_cannot_be_changed() -> None:
    """The arrays are read-only and copied: neither the chain nor the caller's list can reach the other."""
    rows = np.array(RUNNING)
    chain = Chain(rows, [0.5, 0.5])
    rows[0, 0] = 0.0
    assert chain.transition[0, 0] == 0.9
    with pytest.raises(ValueError, match="read-only"):
        chain.transition[0, 0] = 0.5
    assert chain.initial is not None
    with pytest.raises(ValueError, match="read-only"):
        chain.initial[0] = 0.1


@pytest.mark.parametrize("ask", ["stationary", "reversal", "period", "eigengap", "reversible_eigengap"])
def test_a_reducible_chain_has_no_reversal(ask: str) -> None:
    """What needs irreducibility says which state cannot be left."""
    chain = Chain([[1.0, 0.0], [0.5, 0.5]])
    assert not chain.is_irreducible()
    with pytest.raises(ValueError, match="state 0 never leads to state 1"):
        getattr(chain, ask)()


@pytest.mark.parametrize("ask", ["eigengap", "reversible_eigengap"])
def test_a_periodic_chain_has_no_eigengap(ask: str) -> None:
    """A chain that alternates never mixes; its stationary distribution still exists."""
    chain = Chain([[0.0, 1.0], [1.0, 0.0]])
    assert chain.period() == 2
    assert chain.stationary() == pytest.approx([0.5, 0.5])
    with pytest.raises(ValueError, match="period 2"):
        getattr(chain, ask)()


def test_period_is_the_common_divisor_of_cycles() -> None:
    """Cycles of length 3 and 5 through one state make an aperiodic chain; 2 and 4 make period 2."""
    three_five = np.zeros((7, 7))
    for a, b in [(0, 1), (1, 2), (2, 0), (0, 3), (3, 4), (4, 5), (5, 6), (6, 0)]:
        three_five[a, b] = 1
    assert Chain(three_five / three_five.sum(axis=1, keepdims=True)).period() == 1
    two_four = np.zeros((4, 4))
    for a, b in [(0, 1), (1, 0), (1, 2), (2, 3), (3, 0)]:
        two_four[a, b] = 1
    assert Chain(two_four / two_four.sum(axis=1, keepdims=True)).period() == 2


def test_the_running_example_of_swc() -> None:
    """SWC 4.4: stationary (0.8, 0.2), eigengap 0.75, reversible."""
    chain = Chain(RUNNING)
    assert chain.stationary() == pytest.approx([0.8, 0.2], rel=1e-14)
    assert chain.eigengap() == pytest.approx(0.75)
    assert chain.reversible_eigengap() == pytest.approx(0.5)
    assert chain.is_reversible()
    assert chain.reversal().transition == pytest.approx(chain.transition)


def test_a_chain_that_forgets_nothing_in_one_step_has_no_gap() -> None:
    """P·P* has the eigenvalue 1 twice though the chain mixes: the gap is 0, never a later one's."""
    shift = [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]]
    assert Chain(shift).period() == 1
    assert Chain(shift).eigengap() == pytest.approx(0.0, abs=1e-12)


def test_a_stationary_probability_keeps_its_digits_when_tiny() -> None:
    """A state of probability 1e-200 still has its relative accuracy, since nothing is subtracted."""
    chain = Chain([[1 - 1e-200, 1e-200], [0.5, 0.5]])
    assert chain.stationary()[1] == pytest.approx(2e-200, rel=1e-14)


@pytest.mark.slow
@given(chains())
def test_stationary_and_reversal_identities(chain: Chain) -> None:
    """π = πP; reversing twice gives P; P and P* share π; only a reversible chain has a reversible gap."""
    weights = chain.stationary()
    assert weights @ chain.transition == pytest.approx(weights, abs=1e-13)
    back = chain.reversal()
    assert back.stationary() == pytest.approx(weights, rel=1e-9)
    assert back.reversal().transition == pytest.approx(chain.transition, rel=1e-9)
    both = Chain((chain.transition + back.transition) / 2)
    assert both.is_reversible()
    direct = np.sort(np.abs(np.linalg.eigvals(chain.transition @ back.transition)))
    assert chain.eigengap() == pytest.approx(1 - direct[-2], abs=1e-9)
    if not chain.is_reversible():
        with pytest.raises(ValueError, match="not reversible"):
            chain.reversible_eigengap()


def test_power_and_start() -> None:
    """P^h is h steps; `start` is the initial distribution, or the stationary one when none is given."""
    chain = Chain(RUNNING, [1.0, 0.0])
    assert chain.power(3) == pytest.approx(chain.transition @ chain.transition @ chain.transition)
    assert chain.power(0) == pytest.approx(np.eye(2))
    assert chain.start() == pytest.approx([1.0, 0.0])
    assert Chain(RUNNING).start() == pytest.approx([0.8, 0.2])
    with pytest.raises(ValueError, match="h is -1"):
        chain.power(-1)


def test_sampled_transitions_have_the_stated_frequencies() -> None:
    """Every transition is drawn with its probability: within 5.5 errors, which a 30% slip exceeds."""
    chain = Chain([[0.7, 0.2, 0.1], [0.0, 0.6, 0.4], [0.3, 0.3, 0.4]], [0.0, 1.0, 0.0])
    path = chain.sample(60_000, np.random.default_rng(7))
    assert path[0] == 1
    counts = np.zeros((3, 3))
    np.add.at(counts, (path[:-1], path[1:]), 1)
    n = counts.sum(axis=1, keepdims=True)

    def worst(P: np.ndarray) -> float:
        return float(np.max(np.abs(counts - n * P) / np.sqrt(n * np.maximum(P * (1 - P), 1e-12))))

    assert counts[1, 0] == 0
    assert worst(chain.transition) < 5.5
    wrong = np.array(chain.transition)
    wrong[0] = [0.7, 0.14, 0.16]
    assert worst(wrong) > 5.5
    with pytest.raises(ValueError, match="length is -1"):
        chain.sample(-1, np.random.default_rng(0))
