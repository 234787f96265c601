"""Answers to queries from a release alone: means, quantiles, the most frequent states, dwell times, sliding windows.

Each is a fixed function of released numbers, of Θ as the release names it, and of public settings, so it costs nothing
(docs/queries.md, Q1). Errors of sums of frequencies are those of `Linear` estimates, which the calibrator makes of the
same noisy counts. Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hushmq.broker.contract.answer_message import (
    AnyAnswer,
    DwellAnswer,
    MeanAnswer,
    QuantileAnswer,
    SlidingAnswer,
    TopAnswer,
)
from hushmq.broker.contract.policy_message import Bins, StreamPolicy
from hushmq.broker.contract.query_message import AnyQuery, DwellQuery, MeanQuery, QuantileQuery, TopQuery
from hushmq.broker.contract.theta_message import BinaryThetaMessage, CategoricalThetaMessage, ThetaMessage
from hushmq.pufferfish.inference.half_width import half_width

Row = tuple[float, ...]
"""Weights of the states, whose range is at most one."""


@dataclass(frozen=True, slots=True)
class Linear:
    """The error of a weighted sum of frequencies: the root of its mean square at most, and half a 95% interval."""

    standard_error: float
    half_width: float


@dataclass(frozen=True, slots=True)
class SharesBefore:
    """What of a release a later sliding window is made of."""

    first: int
    last: int
    shares: Sequence[float]
    standard_errors: Sequence[float]
    bias: float


def centred(values: Sequence[float]) -> tuple[float, float, Row]:
    """The middle of some values, their range, and weights w with Σ v·f = middle + range·Σ w·f.

    True frequencies sum to one, released ones do not quite: with weights about their middle, that error is least.
    """
    middle, width = math.fsum(values) / len(values), max(values) - min(values)
    if not width:
        return middle, 0.0, (0.0,) * len(values)
    return middle, width, tuple((one - middle) / width for one in values)


def below(state: int, states: int) -> list[float]:
    """Values whose mean is the share of the states up to one."""
    return [1.0 if one <= state else 0.0 for one in range(states)]


def wanted_rows(queries: Mapping[str, AnyQuery], states: int) -> list[Row]:
    """The weighted sums whose errors the answers need, each once."""
    rows: dict[Row, None] = {}
    for query in queries.values():
        if isinstance(query, MeanQuery):
            rows[centred(query.values)[2]] = None
        if isinstance(query, QuantileQuery):
            rows |= {centred(below(state, states))[2]: None for state in range(states - 1)}
    return list(rows)


def weighted(values: Sequence[float], shares: Sequence[float]) -> float:
    """The mean of values under unbiased shares."""
    middle, width, weights = centred(values)
    return middle + width * math.fsum(w * share for w, share in zip(weights, shares, strict=True))


def answer(
    query: AnyQuery,
    policy: StreamPolicy,
    theta: ThetaMessage,
    shares: Sequence[float],
    intervals: Sequence[tuple[float, float]],
    linear: Mapping[Row, Linear],
) -> AnyAnswer | None:
    """The answer that follows from one release; None for a query that needs more than that."""
    match query:
        case MeanQuery():
            return mean(query, shares, linear)
        case QuantileQuery():
            return quantile(query, policy, shares, linear)
        case TopQuery():
            return top(query, policy.states, shares, intervals)
        case DwellQuery():
            return dwell(theta, policy.period_ms)
    return None


def mean(query: MeanQuery, shares: Sequence[float], linear: Mapping[Row, Linear]) -> MeanAnswer:
    _, width, weights = centred(query.values)
    value, error = weighted(query.values, shares), linear[weights]
    off = width * error.half_width
    return MeanAnswer(
        kind="mean",
        value=value,
        standard_error=width * error.standard_error,
        interval=(value - off, value + off),
    )


def quantile(
    query: QuantileQuery, policy: StreamPolicy, shares: Sequence[float], linear: Mapping[Row, Linear]
) -> QuantileAnswer:
    """The first state up to which the share is at least `at`.

    The interval begins at the first state for which that is possible, and ends behind the last for which less is. The
    true state is missed below only if the share up to it was underestimated by half a width, above only if that up to
    the state before was overestimated so: 2.5% each.
    """
    last = len(shares) - 1
    up_to = [weighted(below(state, last + 1), shares) for state in range(last)]
    off = [linear[centred(below(state, last + 1))[2]].half_width for state in range(last)]
    found = next((state for state in range(last) if up_to[state] >= query.at), last)
    low = next((state for state in range(last) if up_to[state] + off[state] >= query.at), last)
    high = 1 + max((state for state in range(last) if up_to[state] - off[state] < query.at), default=-1)
    edges = None
    if isinstance(policy.discretiser, Bins):
        ends = (None, *policy.discretiser.edges, None)
        edges = (ends[low], ends[high + 1])
    return QuantileAnswer(
        kind="quantile",
        at=query.at,
        state=policy.states[found],
        interval=(policy.states[low], policy.states[high]),
        edges=edges,
    )


def top(
    query: TopQuery, states: Sequence[str], shares: Sequence[float], intervals: Sequence[tuple[float, float]]
) -> TopAnswer:
    """The states of the largest shares; of equal ones, those that are named first."""
    ranked = sorted(range(len(shares)), key=lambda state: (-shares[state], state))
    named, left_out = ranked[: query.states], ranked[query.states :]
    least = min(intervals[state][0] for state in named)
    return TopAnswer(
        kind="top",
        states=tuple(states[state] for state in named),
        certain=least > max(intervals[state][1] for state in left_out),
    )


def dwell(theta: ThetaMessage, period_ms: int) -> DwellAnswer | None:
    """A state that is left with probability p at every tick lasts 1/p ticks on average."""
    match theta:
        case BinaryThetaMessage():
            leaving = [(theta.q.low, theta.q.high), (theta.r.low, theta.r.high)]
        case CategoricalThetaMessage():
            stays = [(theta.low[state][state], theta.high[state][state]) for state in range(theta.k)]
            leaving = [(1 - high, 1 - low) for low, high in stays]
        case _:
            return None
    second = period_ms / 1000
    return DwellAnswer(
        kind="dwell",
        seconds=tuple(
            (second / max(high, 1e-15), second / low if low > 1e-15 else None) for low, high in leaving
        ),
    )


def sliding(newest: SharesBefore, earlier: Sequence[SharesBefore], windows: int) -> SlidingAnswer:
    """The mean of the last windows that follow each other without a hole, which are of one length.

    Their noises are independent, so that variances add up; what several noise settings in one window may bias adds up
    as it is.
    """
    used = [newest]
    for one in sorted(earlier, key=lambda each: -each.first):
        before = used[-1]
        if len(used) == windows or one.last + 1 != before.first:
            break
        if one.last - one.first != newest.last - newest.first or len(one.shares) != len(newest.shares):
            break
        used.append(one)
    n, states = len(used), range(len(newest.shares))
    shares = [math.fsum(one.shares[state] for one in used) / n for state in states]
    bias = math.fsum(one.bias for one in used) / n
    variances = [
        math.fsum(max(0.0, one.standard_errors[state] ** 2 - one.bias**2) for one in used) / n**2
        for state in states
    ]
    # All of the error is taken for Laplace noise, whose tails are the heavier ones.
    off = [half_width(0.0, variance, bias=bias) for variance in variances]
    return SlidingAnswer(
        kind="sliding",
        first=used[-1].first,
        windows=n,
        frequencies=tuple(shares),
        standard_errors=tuple(math.sqrt(variance + bias**2) for variance in variances),
        intervals=tuple((share - each, share + each) for share, each in zip(shares, off, strict=True)),
    )
