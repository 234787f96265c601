"""How often the 95% intervals of answers to queries hold the truth of their window: means, quantiles, sliding, pairs.

`python -m hushmq.evaluation.estimation.query_coverage` simulates cohorts of 2 and 4 states window by window, counts,
draws and answers with the calibrator's own code, and prints the table of docs/queries.md. States and noise of devices
are seeded; the noise of releases is the operating system's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.query_message import MeanQuery, QuantileQuery
from hushmq.broker.contract.release_answers import (
    SharesBefore,
    below,
    centred,
    mean,
    quantile,
    sliding,
    wanted_rows,
    weighted,
)
from hushmq.calibrator.models.binary.binary_count import count_binary
from hushmq.calibrator.models.categorical.categorical_count import count_categorical
from hushmq.calibrator.models.pair_count import PairCount
from hushmq.evaluation.estimation.sanitized_categorical import sanitized
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise

States = NDArray[np.uint8]

TWO = np.array([[0.95, 0.05], [0.08, 0.92]])
FOUR = np.array(
    [[0.90, 0.05, 0.03, 0.02], [0.05, 0.88, 0.05, 0.02], [0.02, 0.06, 0.87, 0.05], [0.02, 0.03, 0.05, 0.90]]
)
TICKS = 240
"""Ticks of a window."""
SPAN = 6
"""Windows of a sliding one."""
AT = 0.5


@dataclass(frozen=True, slots=True)
class QueryScenario:
    """A chain, its devices, their noise, and the tilt of a release in nats, of which the table has a quarter."""

    name: str
    chain: NDArray[np.float64]
    devices: int
    noise: BinaryNoise | CategoricalNoise
    tilt: float


SCENARIOS = (
    QueryScenario("2 states, little noise", TWO, 20, BinaryNoise(0.1, 0.1), 0.5),
    QueryScenario("2 states, much noise", TWO, 20, BinaryNoise(0.42, 0.42), 0.5),
    QueryScenario("2 states, uneven noise", TWO, 20, BinaryNoise(0.2, 0.45), 0.5),
    QueryScenario("2 states, one device", TWO, 1, BinaryNoise(0.42, 0.42), 0.05),
    QueryScenario("4 states, little noise", FOUR, 20, CategoricalNoise.response(4, 2.5), 0.5),
    QueryScenario("4 states, much noise", FOUR, 20, CategoricalNoise.response(4, 0.5), 0.5),
)


@dataclass(frozen=True, slots=True)
class QueryCoverage:
    """How often the truth was in the interval of each answer."""

    mean: float
    shares_up_to: float
    """Of the shares up to each state, from whose intervals those of quantiles are made."""
    quantile: float
    sliding: float
    transitions: float
    exact: float
    """How often the interval of a quantile is a single state."""


def windows_of(
    scenario: QueryScenario, count: int, rng: np.random.Generator
) -> Iterator[tuple[States, States]]:
    """True and sanitized states, one row per device, window by window."""
    k = len(scenario.chain)
    true = sanitized(
        np.repeat(scenario.chain[None], scenario.devices, axis=0), np.eye(k), ticks=count * TICKS, rng=rng
    )
    ends = np.cumsum(np.array(scenario.noise.laws), axis=1)
    sent = (rng.random((*true.shape, 1)) > ends[true][:, :, :-1]).sum(axis=2).astype(np.uint8)
    for first in range(0, count * TICKS, TICKS):
        yield true[:, first : first + TICKS], sent[:, first : first + TICKS]


def coverage(scenario: QueryScenario, windows: int, seed: int) -> QueryCoverage:
    """The shares of windows, states and pairs whose intervals hold."""
    k = len(scenario.chain)
    values = tuple(float(10 * state) for state in range(k))
    average = MeanQuery(kind="mean", window="w", values=values)
    median = QuantileQuery(kind="quantile", window="w", at=AT)
    names = tuple(f"{state}" for state in range(k))
    policy = StreamPolicy.model_construct(states=names, discretiser=None)
    rows, noises = wanted_rows({"mean": average, "median": median}, k), {1: scenario.noise}
    table, release = int(scenario.tilt * 2.5e8), int(scenario.tilt * 7.5e8)
    held: dict[str, list[bool]] = {name: [] for name in QueryCoverage.__dataclass_fields__}
    before: list[tuple[SharesBefore, NDArray[np.float64]]] = []
    rng = np.random.default_rng(seed)
    for number, (true, sent) in enumerate(windows_of(scenario, windows, rng)):
        pieces = {(f"device-{one}", 1): [(number * TICKS, bytes(row))] for one, row in enumerate(sent)}
        count: Any = count_binary(pieces) if k == 2 else count_categorical(k, pieces)
        found = count.histogram(noises, tilt=release, rows=rows)
        linear, truth = (
            dict(zip(rows, found.sums, strict=True)),
            np.bincount(true.ravel(), minlength=k) / true.size,
        )
        low, high = mean(average, found.frequencies, linear).interval
        held["mean"].append(low <= float(truth @ values) <= high)
        up_to = np.cumsum(truth)
        for state in range(k - 1):
            off = abs(weighted(below(state, k), found.frequencies) - up_to[state])
            held["shares_up_to"].append(off <= linear[centred(below(state, k))[2]].half_width)
        first, last = map(names.index, quantile(median, policy, found.frequencies, linear).interval)
        held["quantile"].append(first <= int(np.searchsorted(up_to, AT)) <= last)
        held["exact"].append(first == last)
        newest = SharesBefore(
            number * TICKS, (number + 1) * TICKS - 1, found.frequencies, found.standard_errors, found.bias
        )
        before = [*before[-SPAN:], (newest, truth)]
        if number % SPAN == SPAN - 1:
            slid = sliding(newest, [one for one, _ in before[:-1]], SPAN)
            whole = np.mean([one for _, one in before[-SPAN:]], axis=0)
            held["sliding"] += [
                low <= one <= high for one, (low, high) in zip(whole, slid.intervals, strict=True)
            ]
        drawn = PairCount(pieces, k).draw(noises, tilt=table)
        if drawn is not None:
            pairs = np.bincount((true[:, :-1].astype(np.int64) * k + true[:, 1:]).ravel(), minlength=k * k)
            apart = np.abs(drawn.shares - pairs.reshape(k, k) / pairs.sum())
            held["transitions"] += (apart <= drawn.half_widths).ravel().tolist()
    return QueryCoverage(**{name: float(np.mean(each)) for name, each in held.items()})


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m hushmq.evaluation.estimation.query_coverage", description=__doc__
    )
    parser.add_argument("--windows", type=int, default=3000, help="windows of each line (3000)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    print(
        "| cohort | mean | shares up to a state | median | of these a single state | sliding | transitions |"
    )
    print("|---" * 7 + "|")
    for scenario in SCENARIOS:
        found = coverage(scenario, args.windows, args.seed)
        each = (found.mean, found.shares_up_to, found.quantile, found.exact, found.sliding, found.transitions)
        print(f"| {scenario.name} | " + " | ".join(f"{one:.1%}" for one in each) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
