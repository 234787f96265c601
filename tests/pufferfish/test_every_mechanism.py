"""The timeline's price is the loss of the worst of ALL mechanisms with the given tilts, adaptive or not.

Not only of independent noise and Laplace counts: a linear program over the likelihoods of all paths finds the worst
transcript that any mechanism could produce (docs/theory.md, Theorems 1, 4 and 6).
"""

from __future__ import annotations

import itertools

import pytest

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles_categorical import worst_mechanism

CHAINS = [(0.2, 0.3), (0.05, 0.4), (0.5, 0.5), (0.7, 0.6)]
TIMELINES = [(0.3, 0.3, 0.3, 0.3, 0.3), (0.4, 0.0, 0.0, 0.7, 0.2), (0.0, 0.9, 0.1, 0.0, 0.5)]


def chain(q: float, r: float) -> Chain:
    return Chain([[1 - q, q], [r, 1 - r]])


def priced(q: float, r: float, taus: tuple[float, ...], adversary: str) -> float:
    entries = [Entry(t, t, tau, tau) for t, tau in enumerate(taus) if tau]
    span = (0, len(taus) - 1)
    return BinaryTimeline(BinaryTheta.point(q, r), adversary, entries, span=span).price().epsilon  # type: ignore[arg-type]


@pytest.mark.parametrize(("q", "r"), CHAINS)
@pytest.mark.parametrize("taus", TIMELINES)
def test_prior(q: float, r: float, taus: tuple[float, ...]) -> None:
    """Who knows the chain only: the price is the worst mechanism's loss, not a hair more or less."""
    truth = max(worst_mechanism(chain(q, r), taus, i) for i in range(len(taus)))
    assert priced(q, r, taus, "prior") == pytest.approx(truth, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("q", "r"), CHAINS)
@pytest.mark.parametrize("taus", TIMELINES)
def test_informed(q: float, r: float, taus: tuple[float, ...]) -> None:
    """Who knows any other states as well, the worst set of them with the worst values."""
    n = len(taus)
    truth = 0.0
    for i in range(n):
        others = [t for t in range(n) if t != i]
        # Beyond the nearest known instant on a side nothing further out matters: one on each side is enough.
        for left, right in itertools.product([None, *others[:i]], [None, *others[i:]]):
            places = [t for t in (left, right) if t is not None]
            for values in itertools.product((0, 1), repeat=len(places)):
                known = dict(zip(places, values, strict=True))
                truth = max(truth, worst_mechanism(chain(q, r), taus, i, known))
    assert priced(q, r, taus, "informed") == pytest.approx(truth, abs=1e-6)


def test_knowing_more_on_one_side_adds_nothing() -> None:
    """The nearest known instant screens off those behind it: all sets K give what the nearest two give."""
    one, taus, i = chain(0.2, 0.3), (0.3, 0.5, 0.2, 0.4), 1
    for known in ({0: 1, 2: 0, 3: 0}, {0: 0, 2: 1, 3: 0}):
        nearest = {t: state for t, state in known.items() if t != 3}
        assert worst_mechanism(one, taus, i, known) == pytest.approx(worst_mechanism(one, taus, i, nearest))
