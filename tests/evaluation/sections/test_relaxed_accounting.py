"""The distribution of the loss against lists of all outputs, and what the sections make of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import reduce

import numpy as np
import pytest

from hushmq.evaluation.sections.loss_distribution import count_delta, count_given, laplace_law, stream_delta
from hushmq.evaluation.sections.recent_methods import influence_row, renyi_sigma, rows
from hushmq.evaluation.sections.relaxed_accounting import stream_row, window_row
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.evaluation.conftest import Result


def listed_delta(q: float, r: float, flip: float, ticks: int, epsilon: float) -> float:
    """δ of the middle tick from all records and all outputs of a short stream."""
    step, start = np.array([[1 - q, q], [r, 1 - r]]), np.array([r, q]) / (q + r)
    likely = np.zeros((2, 2**ticks))
    emitted = reduce(np.kron, [np.array([[1 - flip, flip], [flip, 1 - flip]])] * ticks)
    for record, row in zip(itertools.product((0, 1), repeat=ticks), emitted, strict=True):
        chance = start[record[0]] * math.prod(step[a, b] for a, b in itertools.pairwise(record))
        likely[record[ticks // 2]] += chance * row
    given = likely / likely.sum(axis=1, keepdims=True)
    return max(float(np.clip(a - math.exp(epsilon) * b, 0, None).sum()) for a, b in (given, given[::-1]))


def listed_counts(q: float, r: float, ticks: int, ends: tuple[int, int] | None) -> list[list[float]]:
    """The laws of the count given the middle tick, from all records."""
    step, start = np.array([[1 - q, q], [r, 1 - r]]), np.array([r, q]) / (q + r)
    laws = np.zeros((2, ticks + 1))
    for record in itertools.product((0, 1), repeat=ticks):
        if ends is None or (record[0], record[-1]) == ends:
            chance = start[record[0]] * math.prod(step[a, b] for a, b in itertools.pairwise(record))
            laws[record[(ticks - 1) // 2], sum(record)] += chance
    return [list(law / law.sum()) for law in laws]


@pytest.mark.parametrize(("q", "r", "flip"), [(0.2, 0.3, 0.3), (0.3, 0.3, 0.2), (0.25, 0.45, 0.35)])
def test_delta_of_a_stream(q: float, r: float, flip: float) -> None:
    """It is above that of a short stream and falls to it: nine ticks of a fast chain are almost an endless stream."""
    for epsilon in (0.3, 1.0, 1.4):
        short, endless = listed_delta(q, r, flip, 9, epsilon), stream_delta(q, r, flip, 1, epsilon)
        assert short <= endless
        assert endless == pytest.approx(listed_delta(q, r, flip, 11, epsilon), rel=0.1, abs=2e-4)


@pytest.mark.parametrize("ends", [None, (0, 0), (1, 0), (1, 1)])
def test_counts_given_the_middle(ends: tuple[int, int] | None) -> None:
    """The laws of the count are those of the list of all records."""
    found = count_given(0.2, 0.35, 8, (None, None) if ends is None else ends)
    assert np.allclose(found, listed_counts(0.2, 0.35, 8, ends), atol=1e-12)


def test_delta_of_a_count() -> None:
    """With Laplace noise of scale s a single tick's count needs no δ from 1/s on, and some just below it."""
    given = count_given(0.2, 0.3, 1)
    assert count_delta(given, laplace_law(1.0), 1.0) == pytest.approx(0.0, abs=1e-15)
    assert count_delta(given, laplace_law(0.99), 1.0) > 1e-3


def test_renyi_sigma() -> None:
    """The best order's conversion gives ε, and no other order less noise."""
    sigma, lost = renyi_sigma(3.0, 2.0), math.log(1e9)
    costs = [order * 4.5 / sigma**2 + lost / (order - 1) for order in np.linspace(1.01, 200, 40_000)]
    assert min(costs) == pytest.approx(2.0, rel=1e-4)


def test_a_delta_saves_nothing_at_a_good_stride() -> None:
    """At the best stride the tilts are equal; every tick of a slow chain would have gained."""
    assert stream_row("slow", 0.01, 0.01, 4.0, 45)[-1] == 1.0
    saved = stream_row("slow", 0.01, 0.01, 4.0, 1)[-1]
    assert isinstance(saved, float)
    assert saved > 1.5


def test_known_ends_take_away_what_a_delta_saves() -> None:
    """A long count alone needs hardly any noise with a δ; a shorter one with known ends needs almost all of it."""
    *_, alone = window_row("N10", 0.09, 0.11, 4.0, 1001, "nothing")
    *_, known = window_row("N10", 0.09, 0.11, 4.0, 21, "both ends 0")
    assert isinstance(alone, float)
    assert isinstance(known, float)
    assert alone > 100
    assert known < 1.1


def test_the_sections(quick: Callable[..., Result]) -> None:
    """They run as the command runs them, and say whether a δ is offered and where others lead."""
    assert quick("relaxed").findings("finding")[0].endswith("Not offered.")
    found = quick("recent")
    assert {row["method"] for row in found.table("streams")} >= {
        "TPL",
        "memoised",
        "ours, best stride, prior",
    }
    assert found.findings("loses")


def test_the_table_of_methods() -> None:
    """Plain randomized response loses more than it promises, ours exactly ε, and ours at the best stride errs least."""
    found = {str(row[2]): row for row in rows("chain", 0.09, 0.11, 1.0)}
    assert float(found["randomized response"][6] or 0) > 4
    assert float(found["ours, best stride, prior"][6] or 0) == pytest.approx(1.0, rel=1e-6)
    assert float(found["ours, best stride, informed"][7] or 0) == pytest.approx(1.0, rel=1e-6)
    errors = {name: float(row[9]) for name, row in found.items() if row[9] is not None}
    assert min(errors, key=errors.__getitem__) == "ours, best stride, prior"
    assert found["memoised"][9] is None
    assert found["Lange"][4] is None


def test_no_influence_curve_is_below_ours_with_two_states() -> None:
    """What our tilt allows and what loses more than ε are the same there; with three states there may be a gap."""
    _, _, ours, beyond, times = influence_row("two", Chain([[0.9, 0.1], [0.2, 0.8]]), 1.0)
    assert float(times or 0) == pytest.approx(1.0, abs=1e-6)
    assert ours == pytest.approx(beyond, rel=1e-6)
    three = Chain([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.25, 0.7]])
    assert 1.0 - 1e-9 <= float(influence_row("three", three, 1.0)[4] or 0) < 1.5
