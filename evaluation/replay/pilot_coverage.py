"""What it costs to cover people who were not recorded: pilots of several sizes, by the coverage that plan is asked for.

Computed from the recordings' fits, not replayed. `python -m hushmq.evaluation.replay.pilot_coverage` prints the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random

import numpy as np

from hushmq.evaluation.attackers.raw_regimes import fitted_regimes
from hushmq.evaluation.replay.replay_site import ASKED, DATA, LARGER, PILOTS, Epsilons, Sleeper, read
from hushmq.plan.fit_regimes import FittedRegimes, fit_regimes
from hushmq.plan.pilot_margin import Margin, covers
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

FIRST_PILOT = ("n1", "n5", "n10")
"""Whose raw data CGSSY's authors published with their code."""
SIZES = (3, 5, 8, 11)
COVERAGES = (0.0, 0.75, 0.9, 0.95)
ATTACKED = 0.9
"""Below the default, so its noise is less: who is covered by it is covered by default."""
DRAWN = 12
"""Pilots of each size that are drawn, for how often the unseen are covered."""

INTRODUCTION = """Computed, not replayed. The pilot of three is {three}, those of five and eight are the first
recordings. “Recorded only” is `--coverage 0`. Errors are standard errors of a share of {window:,} beats that devices
count and release with all of the public's ε, of one device and of eleven together. “Covered”: of those who are not in
the pilot, who loses no more than ε, to operators and to the public, under the noise that Θ allows."""
DRAWN_WORDS = """Whether one pilot covers the others is chance. Of {drawn} pilots of each size, drawn at random, so many
of those left out were covered at ε = {operator:g} and {public:g}:"""
THREE_WORDS = """Who fits three regimes to a raw recording knows more than two. What it loses then, to operators and
to the public, under the noise that the pilot {pilots} allows at a coverage of {coverage:g}; both chains are those under
which the recording is most likely:"""
NOTES = """- **There is a step, and it is the contrast.** An ε above the log-odds that a regime adds need not hide the
  regime, and errors fall by a factor of a hundred and more. N9's upper regime adds 4.6, and two windows of 2,000 beats
  in a row are mostly one regime: at ε = 2 its share has to stay unknown.
- **Few recordings cost more.** The margin of three is 2.2 standard deviations at a coverage of .9, that of eleven
  1.4."""


def coverage_table(sleepers: Sequence[Sleeper], window: int) -> str:
    """The section of the page."""
    fits = {one.name: fit_regimes(one.states.tolist()) for one in sleepers}
    columns = ["pilot", "coverage", "regimes up to, beats", "contrast up to"]
    for _, public in (ASKED, LARGER):
        columns += [f"ε = {public:g}: a device", "eleven"]
    columns += [f"covered at {operator:g}, {public:g}" for operator, public in (ASKED, LARGER)]
    drawn = ["pilots of", *(f"asked {coverage:g}: operators, public" for coverage in COVERAGES[1:3])]
    return "\n\n".join(
        [
            INTRODUCTION.format(three=", ".join(name.upper() for name in FIRST_PILOT), window=window),
            _table(columns, _priced_pilots(fits, window)),
            DRAWN_WORDS.format(drawn=DRAWN, operator=ASKED[0], public=ASKED[1]),
            _table(drawn, _drawn_pilots(fits)),
            THREE_WORDS.format(
                pilots=", ".join(name.upper() for name in PILOTS if name in fits), coverage=ATTACKED
            ),
            _table(
                [
                    "recording",
                    *(
                        f"{count} regimes at {operator:g}, {public:g}"
                        for count in (2, 3)
                        for operator, public in (ASKED, LARGER)
                    ),
                ],
                _more_regimes(sleepers, fits),
            ),
            NOTES,
        ]
    )


def pilot_theta(fits: Sequence[FittedRegimes], coverage: float) -> RegimeTheta:
    """What decides the price of the Θ that plan would list."""
    wider = Margin.of(fits, coverage).chains() if coverage else ()
    return RegimeTheta.of([*wider, *(one.chain for one in fits)])


def _priced_pilots(fits: Mapping[str, FittedRegimes], window: int) -> Iterator[Sequence[str]]:
    for size in SIZES:
        names = FIRST_PILOT if size == len(FIRST_PILOT) else tuple(fits)[:size]
        pilot = [fits[name] for name in names]
        unseen = [one for name, one in fits.items() if name not in names]
        for coverage in COVERAGES:
            theta = pilot_theta(pilot, coverage)
            margin = Margin.of(pilot, coverage) if coverage else None
            errors = []
            for _, public in (ASKED, LARGER):
                alone = math.sqrt(2) / theta.window_tilt("least-noise", public, "prior") / window
                errors += [f"{alone:.3f}", f"{alone / math.sqrt(len(fits)):.3f}"]
            yield (
                str(size),
                f"{coverage:g}" if coverage else "recorded only",
                f"{margin.slow_time:,.0f}" if margin else "",
                f"{margin.contrast:.2f}" if margin else "",
                *errors,
                *(_covered(theta, unseen, epsilons) for epsilons in (ASKED, LARGER)),
            )


def _covered(theta: RegimeTheta, unseen: Sequence[FittedRegimes], epsilons: Epsilons) -> str:
    if not unseen:
        return "all are in it"
    counts = [sum(covers(theta, one.chain, [epsilon], "prior") for one in unseen) for epsilon in epsilons]
    return f"{counts[0]}, {counts[1]} of {len(unseen)}"


def _drawn_pilots(fits: Mapping[str, FittedRegimes]) -> Iterator[Sequence[str]]:
    draw = Random(1)
    for size in SIZES[:-1]:
        pilots = [draw.sample(sorted(fits), size) for _ in range(DRAWN)]
        shares = []
        for coverage in COVERAGES[1:3]:
            thetas = [(names, pilot_theta([fits[name] for name in names], coverage)) for names in pilots]
            found = [
                [
                    covers(theta, one.chain, [epsilon], "prior")
                    for names, theta in thetas
                    for name, one in fits.items()
                    if name not in names
                ]
                for epsilon in ASKED
            ]
            shares.append(", ".join(f"{sum(one) / len(one):.0%}" for one in found))
        yield (str(size), *shares)


def _more_regimes(sleepers: Sequence[Sleeper], fits: Mapping[str, FittedRegimes]) -> Iterator[Sequence[str]]:
    theta = pilot_theta([fits[name] for name in PILOTS if name in fits], ATTACKED)
    for sleeper in sleepers:
        row = [sleeper.name.upper() + (" (pilot)" if sleeper.name in PILOTS else "")]
        for count in (2, 3):
            own = RegimeTheta.of([fitted_regimes([sleeper.states.astype(np.int64)], regimes=count)])
            for epsilons in (ASKED, LARGER):
                losses = [own.constant_loss(*theta.largest_tilts(one, "prior"), "prior") for one in epsilons]
                row.append(
                    ", ".join(
                        f"{loss:.2f}" if loss <= 1.001 * most else f"**{loss:.2f}**"
                        for loss, most in zip(losses, epsilons, strict=True)
                    )
                )
        yield row


def _table(columns: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(coverage_table(read(Path(DATA)), 2_000))
