"""The picture of the replays: releases over time with the true shares, and how Θ became narrower."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from hushmq.evaluation.replay.replay_page import ReleaseComparison, comparisons, left_of
from hushmq.evaluation.replay.replay_recordings import ReplayResult
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

mpl.use("Agg")
from matplotlib import pyplot as plt  # after the choice of backend
from matplotlib.axes import Axes  # as above

BLUE, RED = "#2a6f97", "#c1121f"
SHOWN = 60
"""Windows of the long replay that are drawn: its last ones."""


def draw(by_devices: ReplayResult, cohort: ReplayResult, path: Path) -> None:
    """Draws the windows of the cohort, those of one device, and the chains that are left to each device."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 7.4))
    _draw_windows(axes[0][0], comparisons(by_devices, "cohort"), "The cohort, summed from devices' releases")
    _draw_windows(axes[0][1], comparisons(by_devices, "n10"), "N10 alone, its own releases")
    _draw_windows(
        axes[1][0],
        comparisons(cohort, "cohort")[-SHOWN:],
        f"The cohort from the stream, last {SHOWN} windows",
    )
    _draw_left(axes[1][1], cohort)
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(figure)


def _draw_windows(axes: Axes, found: Sequence[ReleaseComparison], title: str) -> None:
    numbers = np.arange(1, len(found) + 1)
    released = [one.release.frequencies[1] for one in found]
    off = [(one.release.intervals[1][1] - one.release.intervals[1][0]) / 2 for one in found]
    axes.errorbar(numbers, released, yerr=off, fmt="o", ms=3.5, lw=1.0, color=BLUE, label="released, 95%")
    axes.plot(numbers, [one.truth for one in found], color=RED, lw=1.6, label="truth")
    axes.set_xlabel("window")
    axes.set_ylabel("share of beats above the mean")
    axes.set_title(title, fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _draw_left(axes: Axes, result: ReplayResult) -> None:
    """One row for each listed chain, one column for each device: what is left is filled."""
    start = RegimeTheta.from_tree(result.plan.stream["theta"]["start"])
    listed = sorted(start.members, key=lambda one: (round(one.ones, 3), one.slowest_rate))
    grid = np.array(
        [[chain in left_of(result, sleeper).members for sleeper in result.sleepers] for chain in listed]
    )
    axes.imshow(np.where(grid, 0.35, 0.0), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(result.sleepers)), [one.name.upper() for one in result.sleepers], fontsize=8)
    axes.set_yticks(
        range(len(listed)), [f"{one.ones:.3f}, {1 / one.slowest_rate:,.0f}" for one in listed], fontsize=7
    )
    axes.set_ylabel("listed chain: share, slow time in beats", fontsize=8)
    axes.set_title("What evidence has left of Θ for each device (filled)", fontsize=10)
