"""Utility for four states: the error of histograms of activity, from the stream and from the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.recordings import Recording, fitted, people
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Table
from hushmq.pufferfish.categorical.emission import randomized_response
from hushmq.pufferfish.quilt import tilted_quilt as quilt

K = 4
EPSILONS = (1.0, 2.0, 4.0, 8.0)
WINDOWS = {"hour": 60, "day": 1440}
Counts = NDArray[np.int64]
Estimates = NDArray[np.float64]


def cut(devices: Sequence[Recording], size: int) -> tuple[Counts, Counts]:
    """The counts of the states in each window of each device, and the numbers of the windows.

    Windows start with a device's first tick; those less than half filled are omitted.
    """
    counts, places = [], []
    for device in devices:
        begin = device.starts[0]
        pairs = zip(device.pieces, device.starts, strict=True)
        ticks = np.concatenate([np.arange(len(piece)) + start - begin for piece, start in pairs])
        cells = np.bincount(ticks // size * K + device.states(), minlength=(ticks[-1] // size + 1) * K)
        table = cells.reshape(-1, K)
        kept = np.flatnonzero(table.sum(axis=1) >= min(size, device.length) / 2)
        counts.append(table[kept])
        places.append(kept)
    return np.concatenate(counts), np.concatenate(places)


def from_stream(counts: Counts, tau: float, rng: np.random.Generator) -> Estimates:
    """Estimates from randomized response of tilt τ on every sample, with its mean subtracted."""
    B = np.array(randomized_response(K, tau))
    seen = sum(rng.multinomial(counts[:, u], B[u]) for u in range(K))
    return np.asarray(seen @ np.linalg.inv(B), dtype=np.float64)


def from_device(counts: Counts, tau: float, rng: np.random.Generator) -> Estimates:
    """Estimates with discrete Laplace noise of scale 2/τ on every bin, because one sample changes two bins."""
    drawn = rng.geometric(-np.expm1(-tau / 2), (2, *counts.shape))
    return np.asarray(counts + drawn[0] - drawn[1], dtype=np.float64)


WAYS: dict[str, Callable[[Counts, float, np.random.Generator], Estimates]] = {
    "operator, stream at ε": from_stream,
    "release from the device": from_device,
}


def misplaced(off: Estimates, ticks: NDArray[np.float64]) -> float:
    """Half the L1 distance between two histograms, averaged over windows, in percentage points."""
    return 50 * float(np.mean(np.abs(off).sum(axis=1) / ticks))


def together(values: Estimates, places: Counts) -> Estimates:
    """The sum over devices of their first windows, of their second, and so on."""
    found = np.zeros((places.max() + 1, values.shape[1]))
    np.add.at(found, places, values)
    return found[np.bincount(places) > 0]


def histograms(job: Job, draws: int) -> Iterator[Item]:
    """The table, and its findings."""
    group = people(job)
    chain = fitted(group)
    taus = {epsilon: 1 / quilt.tilted_quilt_scale([chain], None, epsilon).scale for epsilon in EPSILONS}
    rows: list[list[Cell]] = []
    for window, size in WINDOWS.items():
        counts, places = cut(group, size)
        ticks = counts.sum(axis=1).astype(np.float64)
        average = ticks[:, None] * (counts.sum(axis=0) / counts.sum())
        all_ticks = together(ticks[:, None], places)[:, 0]
        none = average - counts
        for epsilon, tau in taus.items():
            errors = []
            for name, way in WAYS.items():
                rng = job.rng("histograms", window, name, epsilon)
                offs = [way(counts, tau, rng) - counts for _ in range(draws)]
                one = np.mean([misplaced(off, ticks) for off in offs])
                every = np.mean([misplaced(together(off, places), all_ticks) for off in offs])
                errors.append((float(one), float(every)))
            errors.append((misplaced(none, ticks), misplaced(together(none, places), all_ticks)))
            for scope, values in zip(("device", "cohort"), zip(*errors, strict=True), strict=True):
                rows.append([window, scope, epsilon, *values])
    rows.sort(key=lambda row: (list(WINDOWS).index(str(row[0])), row[1] == "cohort", row[2]))
    yield Table(
        "histograms",
        "Time put into a wrong state by histograms of activity (four states), percentage points",
        ("window", "of", "ε", *WAYS, "no data: the long-run average"),
        rows,
        note="Half the L1 distance. Against the adversary who knows the chain and no state: for more than two states "
        "that is what the tilted quilt proves.",
    )
    day = next(row for row in rows if row[:3] == ["day", "device", 4.0])
    yield Finding(
        f"Four states that last for hours leave little: a day of one person at ε = 4 has {day[4]:.3g} points of the "
        f"time in a wrong state if released from the device and {day[3]:.3g} from the stream; the long-run average has "
        f"{day[5]:.3g}.",
        kind="loses",
    )
