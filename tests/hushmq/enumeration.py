"""Timelines so short that every path, output and known set can be listed."""

from __future__ import annotations

import itertools
import math

import pytest

Tilts = list[tuple[float, float]]


def losses(q: float, r: float, tilts: Tilts, *, informed: bool) -> list[float]:
    """The loss at each instant by definition: over outputs and, if informed, known states, summing over all paths.

    The output z_t multiplies the likelihood of the path by e^τ where x_t = z_t: independent noise with these tilts.
    """
    n, start, step = len(tilts), (r / (q + r), q / (q + r)), ((1 - q, q), (r, 1 - r))
    paths = list(itertools.product((0, 1), repeat=n))
    weights = [start[path[0]] * math.prod(step[a][b] for a, b in itertools.pairwise(path)) for path in paths]
    options = (None, 0, 1) if informed else (None,)
    worst = [0.0] * n
    for known in itertools.product(options, repeat=n):
        fitting = [
            (path, weight)
            for path, weight in zip(paths, weights, strict=True)
            if all(k is None or k == x for k, x in zip(known, path, strict=True))
        ]
        for z in paths:
            likely = [
                weight
                * math.exp(sum(tilt[x] for tilt, x, seen in zip(tilts, path, z, strict=True) if x == seen))
                for path, weight in fitting
            ]
            for i in (i for i in range(n) if known[i] is None):
                mean = []
                for state in (0, 1):
                    chosen = [j for j, (path, _) in enumerate(fitting) if path[i] == state]
                    mean.append(sum(likely[j] for j in chosen) / sum(fitting[j][1] for j in chosen))
                worst[i] = max(worst[i], abs(math.log(mean[0] / mean[1])))
    return worst


TIMELINES = [
    pytest.param(0.2, 0.3, 4, [{"first": 1, "last": 4, "tau": 0.25}], id="the example of the issue"),
    pytest.param(0.05, 0.3, 5, [{"first": 1, "last": 5, "tau": 1}], id="strong correlation"),
    pytest.param(
        0.1,
        0.2,
        5,
        [
            {"first": 1, "last": 2, "tau": 0.5},
            {"first": 2, "last": 3, "tau": 0.7},
            {"first": 5, "last": 5, "tau": 1.5},
        ],
        id="windows, an overlap and a gap",
    ),
    pytest.param(0.3, 0.1, 4, [{"first": 1, "last": 4, "tau0": 0.2, "tau1": 0.9}], id="two tilts"),
    pytest.param(0.15, 0.25, 5, [{"first": 3, "last": 3, "tau": 1}], id="silence on both sides"),
    pytest.param(0.7, 0.8, 4, [{"first": 1, "last": 4, "tau": 0.6}], id="negative correlation"),
]


def tilts_of(ticks: int, entries: list[dict[str, float]]) -> Tilts:
    """The summed tilts of every tick."""
    covering = [[one for one in entries if one["first"] <= t <= one["last"]] for t in range(1, ticks + 1)]
    return [
        (
            sum(one.get("tau", one.get("tau0", 0)) for one in at),
            sum(one.get("tau", one.get("tau1", 0)) for one in at),
        )
        for at in covering
    ]
