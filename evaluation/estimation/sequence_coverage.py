"""The time-uniform coverage of the learned Θ over all theta updates of a cohort, and its reaction to a change.

`python -m hushmq.evaluation.estimation.sequence_coverage looks` simulates cohorts window by window with the
calibrator's learning, and prints how often Θ contained the chain at all updates and at each, and how often it was
contradicted, found to misfit or widened although nothing had changed; `… drift` changes all devices. docs/estimation.md
has recorded results of both.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.estimation.binary_coverage import MIDDLE, N10, QUICK, WINDOW, BinaryScenario, named
from hushmq.evaluation.estimation.simulated_cohorts import CohortScenario, LearnedThetas, SimulatedCohorts
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]

DEMO = BinaryTheta(0.12, 0.48, 0.12, 0.48)
"""The policy's start in `hushmq demo`."""
NARROWED = BinaryTheta(0.2, 0.36, 0.28, 0.48)
"""Approximately the Θ after the first update."""


def _hourly(kind: str, epsilon: float, theta: BinaryTheta, spread: float = 0.0) -> BinaryScenario:
    return BinaryScenario(kind, epsilon, 11, WINDOW, theta, spread)


SCENARIOS = (
    *(CohortScenario(_hourly("alike", epsilon, theta)) for theta in (N10, QUICK) for epsilon in (1, 2, 4)),
    *(CohortScenario(_hourly("near", epsilon, QUICK, 0.15)) for epsilon in (1, 2, 4)),
    *(CohortScenario(_hourly("N1–N11", epsilon, MIDDLE)) for epsilon in (1, 2, 4)),
    *(CohortScenario(_hourly("mixed", epsilon, MIDDLE)) for epsilon in (1, 2, 4)),
    CohortScenario(_hourly("N1–N11", 2, MIDDLE), change=10, later=_hourly("N1–N11", 4, MIDDLE)),
    CohortScenario(_hourly("N1–N11", 2, MIDDLE), windows=128),
    *(
        CohortScenario(
            BinaryScenario("demo", 4, devices, 2_000, DEMO),
            change=4,
            later=BinaryScenario("demo", 4, devices, 2_000, NARROWED),
        )
        for devices in (4, 8)
    ),
)
CHANGES = (
    *(
        CohortScenario(_hourly("alike", 2, QUICK), 64, 32, logit_shift=(by, by))
        for by in (-0.25, -0.5, -2.0, 0.5)
    ),
    *(
        CohortScenario(_hourly("N1–N11", 4, MIDDLE), 64, 32, logit_shift=(by, by))
        for by in (-0.5, -1.0, -2.0, 0.5)
    ),
    CohortScenario(_hourly("alike", 2, QUICK), 64, 24, logit_shift=(-0.5, -0.5)),
    CohortScenario(_hourly("N1–N11", 4, MIDDLE), 64, 24, logit_shift=(-1.0, -1.0)),
    CohortScenario(_hourly("alike", 2, QUICK), 64, 16, logit_shift=(-1.0, -1.0), gradually=32),
    CohortScenario(_hourly("N1–N11", 4, MIDDLE), 64, 16, logit_shift=(-1.0, -1.0), gradually=32),
)


@dataclass(frozen=True, slots=True)
class UpdateCoverage:
    """Shares of devices covered, and of cohorts with false alarms, in cohorts that do not change."""

    always: float
    """Devices whose Θ held their chain at every update."""
    each: tuple[float, ...]
    """Devices whose Θ held it at the first update, the second, …"""
    members: float
    """Devices that the cohort's Θ held at every update."""
    newcomers: float
    """The same of devices that are not in the cohort."""
    by_update: float
    """Cohorts whose learned Θ an update contradicted."""
    by_test: float
    """Cohorts whose learned Θ a change test between updates contradicted."""
    misfit: float
    """Cohorts with an update that found a misfit."""
    apart: float
    """Cohorts with a device that contradicted its learned Θ, or whose region did not intersect the cohort's."""
    own_width: float
    """Of q at the last update, the median."""
    cohort_width: float


def update_coverage(scenario: CohortScenario, *, cohorts: int, seed: int) -> UpdateCoverage:
    """Simulates cohorts that do not change."""
    lives = SimulatedCohorts(scenario, cohorts, seed)
    always, members, newcomers = np.ones((3, cohorts, scenario.setting.devices), dtype=bool)
    by_update, by_test, misfit, apart = np.zeros((4, cohorts), dtype=bool)
    each: dict[int, list[Bits]] = {}
    last: dict[int, LearnedThetas] = {}
    for one in lives.learned_thetas():
        number, before = one.cohort, last.get(one.cohort)
        last[number] = one
        if one.theta is None:
            (by_update if one.scheduled else by_test)[number] = True
            continue
        held = _held(one, lives.truth[number])
        if one.scheduled and one.window == one.progress.windows:
            each.setdefault(one.window, []).append(held)
        always[number] &= held
        members[number] &= [_holds(one.theta, chain) for chain in lives.truth[number]]
        newcomers[number] &= [_holds(one.theta, chain) for chain in lives.strangers[number]]
        misfit[number] |= any(one.progress.persistent_shares)
        again = before is not None and one.progress.contradictions > before.progress.contradictions
        apart[number] |= again or not all(one.theta.contains(own) for own in one.own.values())
    widths = [
        (np.median([own.q_high - own.q_low for own in one.own.values()]), one.theta.q_high - one.theta.q_low)
        for one in last.values()
        if one.theta is not None
    ]
    return UpdateCoverage(
        float(always.mean()),
        tuple(float(np.mean(each[window])) for window in sorted(each)),
        *(float(shares.mean()) for shares in (members, newcomers, by_update, by_test, misfit, apart)),
        *np.median(widths, axis=0).tolist(),
    )


@dataclass(frozen=True, slots=True)
class Followed:
    """The reaction of Θ to a change of all devices."""

    lost: float
    """Devices whose Θ before the change did not contain their new chain."""
    contradicted: float
    """Cohorts whose learned Θ was contradicted after the change."""
    windows: tuple[float, float]
    """Windows from the change until Θ contains the new chain for good, for these devices: median and 90% quantile."""
    missed: float
    """Devices whose Θ does not contain the new chain at the end."""


def followed(scenario: CohortScenario, *, cohorts: int, seed: int) -> Followed:
    """Simulates cohorts whose devices all change."""
    lives = SimulatedCohorts(scenario, cohorts, seed)
    lost, held = np.zeros((2, cohorts, scenario.setting.devices), dtype=bool)
    since = np.zeros(held.shape)
    contradicted = np.zeros(cohorts, dtype=bool)
    goal = lives.chains(scenario.windows)
    for one in lives.learned_thetas():
        now = _held(one, goal[one.cohort])
        if one.window <= scenario.change:
            lost[one.cohort] = ~now
        else:
            since[one.cohort][now & ~held[one.cohort]] = one.window - scenario.change
            contradicted[one.cohort] |= one.progress.contradictions > 0
        held[one.cohort] = now
    waited = since[lost & held]
    return Followed(
        float(lost.mean()),
        float(contradicted.mean()),
        (float(np.median(waited)), float(np.quantile(waited, 0.9))) if len(waited) else (0.0, 0.0),
        float((~held).mean()),
    )


def _held(learned: LearnedThetas, chains: Floats) -> Bits:
    """Which devices' Θ hold their chains; a device without a learned Θ has the cohort's."""
    return np.array(
        [
            _holds(learned.own.get(f"device-{number}", learned.theta), chain)
            for number, chain in enumerate(chains)
        ]
    )


def _holds(theta: BinaryTheta | None, chain: Floats) -> bool:
    """Whether Θ holds the chain. Before anything is learned it is the policy's start, here assumed to contain all."""
    return theta is None or theta.contains(BinaryTheta.point(*chain.tolist()))


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
            "| cohort | ε | devices | windows | always held | at each update | cohort's Θ: members, newcomers "
            "| contradicted: update, test | misfit | a device forgotten | width of q: own, cohort |"
        )
        print("|---" * 11 + "|")
        for scenario in SCENARIOS[chosen]:
            found = update_coverage(scenario, cohorts=args.cohorts, seed=args.seed)
            each = ", ".join(f"{share:.1%}" for share in found.each)
            print(
                f"| {_named(scenario)} | {scenario.setting.devices} | {scenario.windows} × {scenario.setting.ticks:,} "
                f"| {found.always:.1%} | {each} | {found.members:.1%}, {found.newcomers:.1%} "
                f"| {found.by_update:.1%}, {found.by_test:.1%} | {found.misfit:.1%} | {found.apart:.1%} "
                f"| {found.own_width:.3f}, {found.cohort_width:.3f} |",
                flush=True,
            )
    else:
        print(
            "| cohort | ε | change, in logits | after windows | lost | contradicted "
            "| windows to follow: median, 90% | missed |"
        )
        print("|---" * 8 + "|")
        for scenario in CHANGES[chosen]:
            change = followed(scenario, cohorts=args.cohorts, seed=args.seed)
            print(
                f"| {_named(scenario)} | {scenario.logit_shift[0]:+g} "
                f"| {scenario.change}–{scenario.change + scenario.gradually} "
                f"| {change.lost:.1%} | {change.contradicted:.1%} "
                f"| {change.windows[0]:g}, {change.windows[1]:g} | {change.missed:.1%} |",
                flush=True,
            )
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    return 0


def _named(scenario: CohortScenario) -> str:
    later = scenario.later.epsilon if scenario.later else scenario.setting.epsilon
    then = f", then {later:g}" if later != scenario.setting.epsilon else ""
    return f"{named(scenario.setting)} | {scenario.setting.epsilon:g}{then}"


if __name__ == "__main__":
    sys.exit(main())
