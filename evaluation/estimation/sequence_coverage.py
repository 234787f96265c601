"""Whether Θ holds a device's chain at every look, over the whole life of a cohort; and how it follows a change.

`python -m hushmq.evaluation.estimation.sequence_coverage looks` lets simulated cohorts live, window by window,
under the calibrator's own code and prints how often Θ held at every look and at each, and how often it was
contradicted, found to misfit or widened although nothing had changed; `… drift` lets all devices change.
docs/estimation.md has both as recorded.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.estimation.binary_coverage import MIDDLE, N10, QUICK, WINDOW, Setting, named
from hushmq.evaluation.estimation.simulated_cohorts import Life, Lives, Moment
from hushmq.pufferfish.binary.stream_loss import Box

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]

DEMO = Box(0.12, 0.48, 0.12, 0.48)
"""The start of `hushmq demo`."""
NARROWED = Box(0.2, 0.36, 0.28, 0.48)
"""About what it is after the first look."""


def _hourly(kind: str, epsilon: float, theta: Box, spread: float = 0.0) -> Setting:
    return Setting(kind, epsilon, 11, WINDOW, theta, spread)


LIVES = (
    *(Life(_hourly("alike", epsilon, theta)) for theta in (N10, QUICK) for epsilon in (1, 2, 4)),
    *(Life(_hourly("near", epsilon, QUICK, 0.15)) for epsilon in (1, 2, 4)),
    *(Life(_hourly("N1–N11", epsilon, MIDDLE)) for epsilon in (1, 2, 4)),
    *(Life(_hourly("mixed", epsilon, MIDDLE)) for epsilon in (1, 2, 4)),
    Life(_hourly("N1–N11", 2, MIDDLE), change=10, later=_hourly("N1–N11", 4, MIDDLE)),
    Life(_hourly("N1–N11", 2, MIDDLE), windows=128),
    *(
        Life(
            Setting("demo", 4, devices, 2_000, DEMO),
            change=4,
            later=Setting("demo", 4, devices, 2_000, NARROWED),
        )
        for devices in (4, 8)
    ),
)
CHANGES = (
    *(Life(_hourly("alike", 2, QUICK), 64, 32, turned=(by, by)) for by in (-0.25, -0.5, -2.0, 0.5)),
    *(Life(_hourly("N1–N11", 4, MIDDLE), 64, 32, turned=(by, by)) for by in (-0.5, -1.0, -2.0, 0.5)),
    Life(_hourly("alike", 2, QUICK), 64, 24, turned=(-0.5, -0.5)),
    Life(_hourly("N1–N11", 4, MIDDLE), 64, 24, turned=(-1.0, -1.0)),
    Life(_hourly("alike", 2, QUICK), 64, 16, turned=(-1.0, -1.0), gradually=32),
    Life(_hourly("N1–N11", 4, MIDDLE), 64, 16, turned=(-1.0, -1.0), gradually=32),
)


@dataclass(frozen=True, slots=True)
class Looks:
    """Shares of devices held, and of cohorts in which something happened although nothing had changed."""

    always: float
    """Devices whose Θ held their chain at every look."""
    each: tuple[float, ...]
    """Devices whose Θ held it at the first look, the second, …"""
    members: float
    """Devices that the cohort's Θ held at every look."""
    newcomers: float
    """The same of devices that are not in the cohort."""
    by_look: float
    """Cohorts whose belief a look contradicted."""
    by_check: float
    """Cohorts whose belief a check between looks contradicted."""
    misfit: float
    """Cohorts with a look that found a misfit."""
    apart: float
    """Cohorts with a device that contradicted what was believed of it, or whose region did not meet the cohort's."""
    own_width: float
    """Of q at the last look, the median."""
    cohort_width: float


def looks(life: Life, *, cohorts: int, seed: int) -> Looks:
    """Follow cohorts that never change."""
    lives = Lives(life, cohorts, seed)
    always, members, newcomers = np.ones((3, cohorts, life.setting.devices), dtype=bool)
    by_look, by_check, misfit, apart = np.zeros((4, cohorts), dtype=bool)
    each: dict[int, list[Bits]] = {}
    last: dict[int, Moment] = {}
    for one in lives.moments():
        number, before = one.cohort, last.get(one.cohort)
        last[number] = one
        if one.theta is None:
            (by_look if one.looked else by_check)[number] = True
            continue
        held = _held(one, lives.truth[number])
        if one.looked and one.window == one.progress.windows:
            each.setdefault(one.window, []).append(held)
        always[number] &= held
        members[number] &= [_holds(one.theta, chain) for chain in lives.truth[number]]
        newcomers[number] &= [_holds(one.theta, chain) for chain in lives.strangers[number]]
        misfit[number] |= any(one.progress.lasting)
        again = before is not None and one.progress.contradictions > before.progress.contradictions
        apart[number] |= again or not all(one.theta.contains(own) for own in one.own.values())
    widths = [
        (np.median([own.q_high - own.q_low for own in one.own.values()]), one.theta.q_high - one.theta.q_low)
        for one in last.values()
        if one.theta is not None
    ]
    return Looks(
        float(always.mean()),
        tuple(float(np.mean(each[window])) for window in sorted(each)),
        *(float(shares.mean()) for shares in (members, newcomers, by_look, by_check, misfit, apart)),
        *np.median(widths, axis=0).tolist(),
    )


@dataclass(frozen=True, slots=True)
class Followed:
    """How a change of all devices was followed."""

    lost: float
    """Devices whose Θ, as it was, did not hold their new chain."""
    contradicted: float
    """Cohorts whose belief was contradicted after the change."""
    windows: tuple[float, float]
    """From the change until Θ holds the new chain for good, of the devices that were lost: median and 90%."""
    missed: float
    """Devices whose Θ does not hold the new chain at the end."""


def followed(life: Life, *, cohorts: int, seed: int) -> Followed:
    """Follow cohorts whose devices all change."""
    lives = Lives(life, cohorts, seed)
    lost, held = np.zeros((2, cohorts, life.setting.devices), dtype=bool)
    since = np.zeros(held.shape)
    contradicted = np.zeros(cohorts, dtype=bool)
    goal = lives.chains(life.windows)
    for one in lives.moments():
        now = _held(one, goal[one.cohort])
        if one.window <= life.change:
            lost[one.cohort] = ~now
        else:
            since[one.cohort][now & ~held[one.cohort]] = one.window - life.change
            contradicted[one.cohort] |= one.progress.contradictions > 0
        held[one.cohort] = now
    waited = since[lost & held]
    return Followed(
        float(lost.mean()),
        float(contradicted.mean()),
        (float(np.median(waited)), float(np.quantile(waited, 0.9))) if len(waited) else (0.0, 0.0),
        float((~held).mean()),
    )


def _held(moment: Moment, chains: Floats) -> Bits:
    """Which devices' Θ hold their chains; without a belief of its own a device has the cohort's."""
    return np.array(
        [
            _holds(moment.own.get(f"device-{number}", moment.theta), chain)
            for number, chain in enumerate(chains)
        ]
    )


def _holds(box: Box | None, chain: Floats) -> bool:
    """Whether Θ holds the chain. Without any belief it is the policy's start, here taken to hold all."""
    return box is None or box.contains(Box.point(*chain.tolist()))


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m hushmq.evaluation.estimation.sequence_coverage", description=__doc__
    )
    parser.add_argument("table", choices=("looks", "drift"))
    parser.add_argument("--cohorts", type=int, default=300, help="per line (300)")
    parser.add_argument("--lines", help="only these lines of the table, as first:last")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    chosen = slice(*(int(end) if end else None for end in (args.lines or ":").split(":")))
    started = time.monotonic()
    if args.table == "looks":
        print(
            "| cohort | ε | devices | windows | always held | at each look | cohort's Θ: members, newcomers "
            "| contradicted: look, check | misfit | a device forgotten | width of q: own, cohort |"
        )
        print("|---" * 11 + "|")
        for life in LIVES[chosen]:
            found = looks(life, cohorts=args.cohorts, seed=args.seed)
            each = ", ".join(f"{share:.1%}" for share in found.each)
            print(
                f"| {_named(life)} | {life.setting.devices} | {life.windows} × {life.setting.ticks:,} "
                f"| {found.always:.1%} | {each} | {found.members:.1%}, {found.newcomers:.1%} "
                f"| {found.by_look:.1%}, {found.by_check:.1%} | {found.misfit:.1%} | {found.apart:.1%} "
                f"| {found.own_width:.3f}, {found.cohort_width:.3f} |",
                flush=True,
            )
    else:
        print(
            "| cohort | ε | change, in logits | after windows | lost | contradicted "
            "| windows to follow: median, 90% | missed |"
        )
        print("|---" * 8 + "|")
        for life in CHANGES[chosen]:
            change = followed(life, cohorts=args.cohorts, seed=args.seed)
            print(
                f"| {_named(life)} | {life.turned[0]:+g} | {life.change}–{life.change + life.gradually} "
                f"| {change.lost:.1%} | {change.contradicted:.1%} "
                f"| {change.windows[0]:g}, {change.windows[1]:g} | {change.missed:.1%} |",
                flush=True,
            )
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


def _named(life: Life) -> str:
    later = life.later.epsilon if life.later else life.setting.epsilon
    then = f", then {later:g}" if later != life.setting.epsilon else ""
    return f"{named(life.setting)} | {life.setting.epsilon:g}{then}"


if __name__ == "__main__":
    sys.exit(main())
