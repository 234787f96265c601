"""The report of the replays: tables for docs/replay.md; evaluation/replay/replay_picture.py draws its picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hushmq.broker.contract.messages import Release
from hushmq.calibrator.learning.stream_theta import MOST_UNDETECTABLE
from hushmq.calibrator.models.misfit import UNSEEN
from hushmq.evaluation.replay.replay_recordings import ReplayResult, agreement
from hushmq.evaluation.replay.replay_site import EPSILON_OPERATOR, EPSILON_PUBLIC, PILOTS, WINDOW, Sleeper
from hushmq.plan.fit_regimes import fit_regimes
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

INTRODUCTION = """The heart rates of the sleepers N1–N11, above their own mean or not, played by eleven real agents
(source `file` with `replay`) through a real NATS broker to the real calibrator; every process as a site runs it. ε =
{operator:g} for operators and {public:g} for the public, windows of {window:,} beats, all else as the product
chooses it.

The policies are `hushmq plan`'s, pushed with `hushmq push`. Nobody may fit Θ to what is to be protected: plan was given
the recordings of a pilot of three, {pilots}, whose raw data CGSSY's authors published with their code; of the other
eight it knows nothing. The clock is the replay's, {rates} beats a second. A recording that is over begins again. One
run each; the noise is real, so the next one differs."""
PLANNED = """Asked for releases of the cohort and of each device (`--per-device`), and of the cohort alone, plan says
what it chooses, and why:"""
COVERED = """Each recording, and the chain with two regimes that fits its correlations, as plan fits one. “Loses”: what
readers learn at most about an instant if the recording is that chain, under the noise for Θ's start, where {operator:g}
and {public:g} are promised; what is more is in bold. The promise is for the chains that Θ lists, which are the pilot's:
it was never one for the others. “Θ”: how many of the {listed} listed chains were left to the device at the end of the
replay of the cohort alone. “Agree”: how often sanitized and true states were equal there, and how often the noise lets
them be."""
COLUMNS = (
    "device",
    "share",
    "slow share",
    "slow time, beats",
    "loses: operators",
    "public, by devices",
    "public, from the stream",
    "Θ",
    "signal, first and last",
    "agree",
    "error of its windows, by devices",
    "intervals held",
)


@dataclass(frozen=True, slots=True)
class ReleaseComparison:
    """A release, and the true share of ones of the recordings in its window."""

    release: Release
    truth: float

    @property
    def off(self) -> float:
        return self.release.frequencies[1] - self.truth

    @property
    def held(self) -> bool:
        low, high = self.release.intervals[1]
        return low <= self.truth <= high


def comparisons(result: ReplayResult, scope: str) -> list[ReleaseComparison]:
    """The releases of a scope in order, each with the true share of all beats of its window."""
    found = []
    for (of, _), release in sorted(result.received.releases.items()):
        if of != scope:
            continue
        members = [one for one in result.sleepers if scope in {"cohort", one.name}]
        true = np.concatenate([result.truth(one, release.first, release.last) for one in members])
        if len(true) == release.ticks * release.stride:  # else devices began within the window
            found.append(ReleaseComparison(release, float(true.mean())))
    return found


def text(
    by_devices: ReplayResult, cohort: ReplayResult, said: Mapping[str, Sequence[str]], picture: str
) -> str:
    """The whole page."""
    both = (by_devices, cohort)
    start = RegimeTheta.from_tree(cohort.plan.stream["theta"]["start"])
    return "\n\n".join(
        [
            "# The recordings, replayed",
            "<!-- written by `python -m hushmq.evaluation.replay.replay_recordings`: do not edit -->",
            INTRODUCTION.format(
                operator=EPSILON_OPERATOR,
                public=EPSILON_PUBLIC,
                window=cohort.plan.window,
                pilots=", ".join(name.upper() for name in PILOTS),
                rates=" and ".join(f"{1000 // one.plan.period_ms:,}" for one in both),
            ),
            PLANNED,
            *("```\n" + "\n".join(lines) + "\n```" for lines in said.values()),
            f"![What was released and the truth; what is left of Θ]({picture})",
            "## In short",
            _table(("", "asked", "made by devices", "from the stream"), _summary(by_devices, cohort, start)),
            "## Whom the promise covers, and what is learned",
            COVERED.format(operator=EPSILON_OPERATOR, public=EPSILON_PUBLIC, listed=len(start.members)),
            _table(COLUMNS, _devices(by_devices, cohort, start)),
            "## Misfit",
            misfit_text(cohort.ledger["misfit"]),
            NOTES.strip(),
            "",
        ]
    )


NOTES = """
## What falls short, and why

- **The single device at ε = 2.** Whoever learns that a sleeper is in the upper regime of N10's chain has changed the
  odds of an instant by e^2.0, of N1's by e^2.5: a share of 2,000 beats all but says it. So nearly all of the public's ε
  hides the regime, and the most accurate releases there are, counts made by the device with all of ε, have a
  stated error of 0.081. At ε = 4 the same chains allow 0.001.
- **Both at once are not to be had.** Releases by devices use up the public's ε, and nothing is left to learn from: Θ
  stays the start. From the stream, with half of ε for learning, a device's own windows would be ±0.64.
- **Learning takes long.** What is learned is public, so its statistics carry noise for ε = 2: 512 windows, a million
  beats, some twelve days, until Θ is narrower for most devices. What goes is what the evidence excludes: other shares
  of ones, and quick regimes. The slow listed chains stay as long as a hidden misfit could bring them back, and they
  decide the noise: no better setting followed.
- **N2, N7 and N9 are not what the pilot was.** Their regimes last 2,500 to 4,200 beats, and differ more. A Θ that
  covers them leaves nothing at ε = 2: N9's own windows would be off by 2. Learning cannot show it either: a device
  beyond the end of the list counts as one at its end, and windows of 2,000 beats see lags up to 1,093 only.
- **One run is one run.** Where intervals held less often than 95%, it is by about two standard errors of such a count.
  A second run of releases by devices, on the same day, had errors of 0.0245 and 0.0819; 33 of 35 and 397 of 418
  intervals held.
"""


def _summary(
    by_devices: ReplayResult, cohort: ReplayResult, start: RegimeTheta
) -> Iterator[tuple[str, str, str, str]]:
    left = _comparable(by_devices), _comparable(cohort)
    own = [one for sleeper in by_devices.sleepers for one in comparisons(by_devices, sleeper.name)]

    def row(name: str, asked: str, *values: str) -> tuple[str, str, str, str]:
        return (name, asked, values[0], values[1])

    yield row("beats of each device", "", *(f"{one.plan.ticks:,}" for one in (by_devices, cohort)))
    yield row("one beat is published of", "", *(str(one.stride) for one in (by_devices, cohort)))
    yield row("windows released for the cohort, compared", "", *(str(len(one)) for one in left))
    yield row(
        "error of the cohort's share, root mean square", "≤ 0.03", *(f"{_rms(one):.4f}" for one in left)
    )
    yield row("stated", "", *(f"{_rms_stated(one):.4f}" for one in left))
    yield row("error of a device's share, root mean square", "≤ 0.08", f"{_rms(own):.4f}", "not released")
    yield row("stated", "", f"{_rms_stated(own):.4f}", "")
    yield row(
        "95% intervals that held the truth",
        "95%",
        f"{_held(left[0])} of the cohort, {_held(own)} of devices",
        f"{_held(left[1])} of the cohort",
    )
    narrowed = [_narrowed(one, start) for one in (by_devices, cohort)]
    yield row("Θ narrower at the end, devices", "≥ 8 of 11", *(f"{one} of 11" for one in narrowed))
    yield row(
        "settings pushed, for all and for single devices",
        "",
        *(f"{len(_settings(one)[0])}, {len(_settings(one)[1])}" for one in (by_devices, cohort)),
    )
    for name in ("operator", "public"):
        yield row(
            f"loss, {name}",
            f"≤ {cohort.ledger[name]['budget']:g}",
            *(f"{one.ledger[name]['loss']:.4f}" for one in (by_devices, cohort)),
        )
    yield row("late ticks", "", *(str(one.ledger["late_ticks"]) for one in (by_devices, cohort)))
    yield row("releases stopped", "no", *(one.received.stopped or "no" for one in (by_devices, cohort)))
    yield row(
        "`hushmq ledger verify`",
        "right",
        *("right" if one.verified else "WRONG" for one in (by_devices, cohort)),
    )


def _comparable(result: ReplayResult) -> list[ReleaseComparison]:
    return comparisons(result, "cohort")


def _settings(result: ReplayResult) -> tuple[list[int], list[int]]:
    """The versions of settings for all, and for single devices."""
    found = result.received.settings
    return [one for one in found if found[one].device is None], [one for one in found if found[one].device]


def left_of(result: ReplayResult, sleeper: Sleeper) -> RegimeTheta:
    """Θ of a device at the end."""
    learned = result.ledger["devices"]
    return RegimeTheta.from_tree(learned.get(sleeper.name, result.ledger["theta"]))


def _narrowed(result: ReplayResult, start: RegimeTheta) -> int:
    return sum(left_of(result, one) != start for one in result.sleepers)


def _devices(by_devices: ReplayResult, cohort: ReplayResult, start: RegimeTheta) -> Iterator[Sequence[str]]:
    tilt = by_devices.plan.stream["device_windows"][WINDOW]["scale"]
    first = cohort.noise(min(_settings(cohort)[0]))
    public = start.window_tilt("least-noise", EPSILON_PUBLIC, "prior", stride=cohort.stride)
    for sleeper in cohort.sleepers:
        found = fit_regimes(sleeper.states.tolist())
        own = RegimeTheta.of([found.chain])
        coordinates = found.coordinates
        losses = (
            (own.constant_loss(*first.tilts, "prior", stride=cohort.stride), EPSILON_OPERATOR),
            (own.constant_loss(1 / tilt, 1 / tilt, "prior"), EPSILON_PUBLIC),
            (own.constant_loss(public, public, "prior", stride=cohort.stride), EPSILON_PUBLIC),
        )
        last = max(cohort.received.batches[sleeper.name], key=lambda batch: batch.last)
        windows = comparisons(by_devices, sleeper.name)
        seen, expected = agreement(cohort, sleeper)
        yield (
            sleeper.name.upper() + (" (pilot)" if sleeper.name in PILOTS else ""),
            f"{coordinates.share:.3f}",
            f"{coordinates.slow_share:.2f}",
            f"{1 / coordinates.slow_rate:,.0f}",
            *(f"{loss:.2f}" if loss <= 1.01 * most else f"**{loss:.2f}**" for loss, most in losses),
            str(len(left_of(cohort, sleeper).members)),
            f"{first.signal:.3f}, {cohort.noise(last.noise).signal:.3f}",
            f"{seen:.3f}, {expected:.3f}",
            f"{_rms(windows):.4f}",
            _held(windows),
        )


def misfit_text(tree: Any) -> str:
    """The misfit after regimes, as the ledger reports it."""
    if tree is None:
        return "Not measured: there was too little evidence for a theta update."
    rows = [
        (f"{one['first']}–{one['last']}", f"{one['seen']:.2f} ± {one['error']:.2f}", f"{one['fitted']:.2f}")
        for one in tree["bands"]
        if one["error"] < UNSEEN
    ]
    hidden = (
        f"The theta updates would have shown an excess of {tree['hidden']:.2f}: as long as that is above "
        f"{MOST_UNDETECTABLE:g}, Θ keeps the slow chains that a misfit would bring back."
    )
    return (
        f"{_table(('lags', 'correlation seen', 'of the fitted chains with two regimes'), rows)}\n\n{hidden}"
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rms(found: Sequence[ReleaseComparison]) -> float:
    return float(np.sqrt(np.mean([one.off**2 for one in found]))) if found else float("nan")


def _rms_stated(found: Sequence[ReleaseComparison]) -> float:
    errors = [one.release.standard_errors[1] for one in found]
    return float(np.sqrt(np.mean(np.square(errors)))) if found else float("nan")


def _held(found: Sequence[ReleaseComparison]) -> str:
    return f"{sum(one.held for one in found)} of {len(found)}"


def write(
    by_devices: ReplayResult, cohort: ReplayResult, said: Mapping[str, Sequence[str]], page: Path
) -> None:
    """Writes the page, and the picture beside it."""
    from hushmq.evaluation.replay.replay_picture import draw  # noqa: PLC0415  # it reads from this module

    picture = page.with_suffix(".png")
    page.write_text(text(by_devices, cohort, said, picture.name), encoding="utf-8")
    draw(by_devices, cohort, picture)
