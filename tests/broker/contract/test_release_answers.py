"""Answers follow from released numbers alone; intervals hold what they promise."""

from __future__ import annotations

import itertools
import random

import pytest

from hushmq.broker.contract.answer_message import MeanAnswer
from hushmq.broker.contract.policy_message import Bins
from hushmq.broker.contract.query_message import MOST_QUERIES, MeanQuery, QuantileQuery, TopQuery, query_error
from hushmq.broker.contract.release_answers import (
    Linear,
    SharesBefore,
    below,
    centred,
    dwell,
    mean,
    quantile,
    sliding,
    top,
    wanted_rows,
    weighted,
)
from hushmq.broker.contract.theta_message import theta_message
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import stream_policy

EXACT = Linear(0.0, 0.0)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"kind": "mean", "window": "day", "values": (1.0, 2.0)}, "window: day is none of windows"),
        (
            {"kind": "mean", "window": "short", "values": (1.0, 2.0, 3.0)},
            "one is needed for each of 2 states",
        ),
        ({"kind": "mean", "window": "short", "values": (0.0, 1e13)}, "less than or equal to"),
        ({"kind": "mean", "window": "short", "values": (0.0, 1e-13)}, "0 or at least 1e-12 in size"),
        ({"kind": "top", "window": "short", "states": 2}, "at most 1 of 2 states"),
        ({"kind": "quantile", "window": "short", "at": 1.0}, "less than 1"),
        ({"kind": "sliding", "window": "short", "windows": 1}, "greater than or equal to 2"),
        ({"kind": "transitions", "window": "short", "share": 1.0}, "less than 1"),
        ({"kind": "mode", "window": "short"}, "does not match any of the expected tags"),
    ],
)
def test_a_query_that_does_not_fit_is_refused(query: dict[str, object], words: str) -> None:
    """With the setting, what is wrong with it, and what would be right."""
    with pytest.raises(ValueError, match="queries") as caught:
        stream_policy(queries={"one": query})
    assert words in str(caught.value)


def test_queries_leave_something_to_the_histogram() -> None:
    """Two tables that take a half each leave nothing."""
    half = {"kind": "transitions", "window": "short", "share": 0.5}
    with pytest.raises(ValueError, match="leave nothing to its histogram"):
        stream_policy(queries={"one": half, "two": half})
    assert stream_policy(queries={"one": half}).histogram_share("short") == 0.5
    assert stream_policy(queries={"one": half}).histogram_share("other") == 1.0


def test_a_window_has_a_limited_number_of_queries() -> None:
    """Eight, whatever other windows have."""
    one = {"kind": "sliding", "window": "short", "windows": 2}
    assert (
        len(stream_policy(queries={f"q{number}": one for number in range(MOST_QUERIES)}).queries)
        == MOST_QUERIES
    )
    with pytest.raises(ValueError, match="at most 8 may be"):
        stream_policy(queries={f"q{number}": one for number in range(MOST_QUERIES + 1)})


def test_dwell_times_need_chains_without_regimes() -> None:
    """A regime's state has no single dwell time."""
    found = stream_policy(queries={"one": {"kind": "dwell", "window": "short"}}).queries
    assert query_error(found, windows={"short": 20}, states=2, regimes=False) is None
    assert "hidden regimes" in str(query_error(found, windows={"short": 20}, states=2, regimes=True))


def test_a_mean_is_that_of_its_values() -> None:
    """Whatever the middle they are counted from; its error is that of the centred sum, times the range."""
    values, shares = (40.0, 70.0, 130.0), (0.5, 0.3, 0.2)
    query = MeanQuery(kind="mean", window="short", values=values)
    (row,) = wanted_rows({"one": query}, 3)
    assert max(row) - min(row) == pytest.approx(1)
    found = mean(query, shares, {row: Linear(0.01, 0.02)})
    assert found.value == pytest.approx(0.5 * 40 + 0.3 * 70 + 0.2 * 130)
    assert found.standard_error == pytest.approx(0.9)
    assert found.interval == pytest.approx((found.value - 1.8, found.value + 1.8))
    assert weighted((3.0, 3.0), (0.2, 0.9)) == 3.0


@pytest.mark.parametrize("values", [(-1e12, 1e12), (0.0, 1e-12), (1e12, 1e12), (1e-12, -1e-12)])
def test_every_mean_fits_a_release(values: tuple[float, float]) -> None:
    """However far its noise is: a policy that was accepted stops no window from closing."""
    query = MeanQuery(kind="mean", window="short", values=values)
    for share in (-1e6, 0.0, 0.5, 1e-9, 1e6):
        found = mean(query, (1 - share, share), {centred(values)[2]: Linear(1e6, 1e7)})
        assert MeanAnswer.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_a_quantile_s_interval_holds_the_true_state(at: float) -> None:
    """Wherever the shares up to each state are off by no more than half a width; and it is no wider than it must be."""
    policy = stream_policy(states=("a", "b", "c", "d"), **categorical(4))
    query = QuantileQuery(kind="quantile", window="short", at=at)
    rng = random.Random(1)
    for _ in range(300):
        true = [rng.random() for _ in range(4)]
        true = [one / sum(true) for one in true]
        off = [rng.uniform(0, 0.2) for _ in range(3)]
        # What is released: shares up to each state, each off by at most its half width.
        up_to = [sum(true[: state + 1]) + rng.uniform(-1, 1) * off[state] for state in range(3)]
        shares = [after - before for before, after in itertools.pairwise([0.0, *up_to, 1.0])]
        linear = {centred(below(state, 4))[2]: Linear(0.0, off[state] + 1e-12) for state in range(3)}
        found = quantile(query, policy, shares, linear)
        holds = next(state for state in range(4) if sum(true[: state + 1]) >= at or state == 3)
        low, high = (policy.states.index(end) for end in found.interval)
        assert low <= holds <= high
        assert low <= policy.states.index(found.state) <= high
        exact = quantile(query, policy, true, dict.fromkeys(linear, EXACT))
        assert exact.interval == (policy.states[holds],) * 2


def test_a_quantile_of_bins_has_edges() -> None:
    """The ends of the interval in the values' own unit; open where the outermost bin is in it."""
    policy = stream_policy(states=("a", "b", "c"), discretiser=Bins(edges=(60.0, 90.0)), **categorical(3))
    query = QuantileQuery(kind="quantile", window="short")
    linear = {centred(below(state, 3))[2]: Linear(0.0, 0.05) for state in range(2)}
    assert quantile(query, policy, (0.2, 0.6, 0.2), linear).edges == (60.0, 90.0)
    found = quantile(query, policy, (0.48, 0.4, 0.12), linear)
    assert (found.state, found.interval, found.edges) == ("b", ("a", "b"), (None, 90.0))


def test_the_most_frequent_states() -> None:
    """In order, and certain only where no interval of the others reaches theirs."""
    query, states = TopQuery(kind="top", window="short", states=2), ("a", "b", "c")
    shares = (0.2, 0.5, 0.3)
    narrow = [(one - 0.04, one + 0.04) for one in shares]
    wide = [(one - 0.06, one + 0.06) for one in shares]
    assert top(query, states, shares, narrow).states == ("b", "c")
    assert top(query, states, shares, narrow).certain
    assert not top(query, states, shares, wide).certain


def test_dwell_times_are_those_of_all_chains_in_theta() -> None:
    """1/q and 1/r ticks at their ends; a chain that may never leave a state has no upper end."""
    found = dwell(theta_message(BinaryTheta(0.05, 0.2, 0.1, 0.5)), 2000)
    assert found is not None
    assert found.seconds[0] == pytest.approx((10.0, 40.0))
    assert found.seconds[1] == pytest.approx((4.0, 20.0))


def test_a_sliding_window_is_the_mean_of_windows_without_a_hole() -> None:
    """Variances add up, biases add up as they are; after a hole or another length nothing is taken."""

    def at(first: int, share: float, error: float, bias: float = 0.0, length: int = 10) -> SharesBefore:
        return SharesBefore(first, first + length - 1, (1 - share, share), (error, error), bias)

    newest = at(50, 0.4, 0.3)
    found = sliding(newest, [at(30, 0.1, 0.3), at(40, 0.2, 0.3)], 3)
    assert (found.first, found.windows) == (30, 3)
    assert found.frequencies[1] == pytest.approx(0.7 / 3)
    assert found.standard_errors[1] == pytest.approx(0.3 / 3**0.5)
    assert found.intervals[1][1] - found.frequencies[1] > 1.96 * found.standard_errors[1]
    assert sliding(newest, [at(30, 0.1, 0.3)], 3).windows == 1
    assert sliding(newest, [at(30, 0.1, 0.3, length=20)], 3).windows == 1
    assert sliding(newest, [at(40, 0.2, 0.3), at(30, 0.1, 0.3)], 2).first == 40
    biased = sliding(at(50, 0.4, 0.5, 0.3), [at(40, 0.2, 0.5, 0.3)], 2)
    assert biased.standard_errors[0] == pytest.approx((0.3**2 + 2 * 0.16 / 4) ** 0.5)


def categorical(k: int) -> dict[str, object]:
    """What a policy of k states needs beside their names."""
    near = tuple(tuple(0.6 if one == other else 0.4 / (k - 1) for other in range(k)) for one in range(k))
    theta = {"low": near, "high": near}
    return {
        "theta": {"start": theta, "floor": theta},
        "adversary": "prior",
    } | ({"discretiser": Bins(edges=tuple(float(one) for one in range(k - 1)))} if k != 3 else {})
