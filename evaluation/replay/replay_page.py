"""The report of a replay: tables and a picture for docs/replay.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from hushmq.broker.contract.messages import Release
from hushmq.calibrator.learning.stream_theta import MOST_UNDETECTABLE
from hushmq.evaluation.replay.replay_recordings import ReplayResult, agreement
from hushmq.evaluation.replay.replay_site import EPSILON_OPERATOR, EPSILON_PUBLIC, FLOOR, START
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

mpl.use("Agg")
from matplotlib import pyplot as plt  # after the choice of backend
from matplotlib.axes import Axes  # as above
from matplotlib.patches import Rectangle  # as above

INTRODUCTION = """The heart rates of the sleepers N1–N11, above their own mean or not, played by eleven real agents
(source `file` with `replay`) at {rate} beats a second through a real NATS broker to the real calibrator; every process
as a site runs it. The policy, pushed with `hushmq push`: ε = {operator:g} for operators and {public:g} for the public;
windows of {window:,} beats for the cohort and for each device; misfit is covered; Θ starts as {start};
its floor is {floor}. {ticks:,} beats of each; a recording that is over begins
again. One run; the noise is real, so the next one differs."""
ERRORS = """Where a setting changes, a window holds ticks under both; the noisier ones count as little as makes the
worst error least (calibrator.md, Windows). Θ's start and ε were chosen so that windows come out. Two
runs of 70,000 beats before this one also went on to their end; one of 136,000 stopped after 64 windows, when N9 was
found to be slower, over long lags, than any chain of Θ's start."""
STOPPED = """**Releases stopped**, and that is what was promised. Until then Θ was what ops had assumed. The charged
statistics showed, significantly, devices or correlation over long lags outside of it; Θ was widened at once.
Under the wider Θ what had been released costs more than ε, so the calibrator releases no more and says why, and
`hushmq ledger verify` finds the budget exceeded. Sleeping hearts are no first-order chains; an assumption that starts
too narrow is found out."""
DEVICES = """q and r are the recording's own, counted at lag 1; “held” says whether the device's Θ holds that pair. Θ is
fitted to all lags and covers the misfit, so it may lie below what lag 1 alone asks for: that is more cautious, not
less. “agree”: how often sanitized and true states were equal, and how often the noise lets them be."""
DEVICE_COLUMNS = (
    "device",
    "q",
    "r",
    "Θ of q",
    "Θ of r",
    "held",
    "signal",
    "error, median",
    "intervals held",
    "agree",
)
WINDOW_COLUMNS = ("window", "truth", "released", "95% interval", "held", "scale of the noise")


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
    """The releases of a scope in order, each with the true share."""
    found = []
    for (of, _), release in sorted(result.received.releases.items()):
        if of != scope:
            continue
        members = [one for one in result.sleepers if scope in {"cohort", one.name}]
        true = np.concatenate([result.truth(one, release.first, release.last) for one in members])
        if len(true) == release.ticks:  # else the window has ticks that came late
            found.append(ReleaseComparison(release, float(true.mean())))
    return found


def write(result: ReplayResult, page: Path) -> None:
    """Writes the page, and the picture beside it."""
    picture = page.with_suffix(".png")
    page.write_text(text(result, picture.name), encoding="utf-8")
    draw(result, picture)


def text(result: ReplayResult, picture: str) -> str:
    """The whole page."""
    cohort = comparisons(result, "cohort")
    own = [one for sleeper in result.sleepers for one in comparisons(result, sleeper.name)]
    plan, ledger = result.plan, result.ledger
    received = result.received
    signals = [_signal(result, version) for version in sorted(received.settings)]
    settings = sum(one.device is None for one in received.settings.values())
    theta = _theta_of(ledger["theta"])
    accounts = ", ".join(
        f"{name} {ledger[name]['loss']:.4f} of {ledger[name]['budget']:g}" for name in ("operator", "public")
    )
    summary = [
        ("windows released", f"{len(cohort)} for the cohort, {len(own)} for single devices"),
        ("error of the cohort's share above, median", f"{_median(cohort):.4f}; stated {_stated(cohort):.4f}"),
        ("the same, root mean square", f"{_rms(cohort):.4f}; stated {_rms_stated(cohort):.4f}"),
        ("error of a device's share, median", f"{_median(own):.4f}; stated {_stated(own):.4f}"),
        ("the same, root mean square", f"{_rms(own):.4f}; stated {_rms_stated(own):.4f}"),
        ("95% intervals that held the truth", f"{_held(cohort)} of the cohort, {_held(own)} of devices"),
        ("settings pushed", f"{settings} for all, {len(received.settings) - settings} for single devices"),
        ("signal 1−ρ0−ρ1 of a setting", f"first {signals[0]:.3f}, best {max(signals):.3f}"),
        ("the cohort's Θ at the end", _range(theta)),
        (f"loss, {ledger['adversary']} adversary", accounts),
        ("late ticks", str(ledger["late_ticks"])),
        ("releases stopped", received.stopped or "no"),
        ("`hushmq ledger verify`", "right" if result.verified else "WRONG"),
    ]
    return "\n\n".join(
        [
            "# The recordings, replayed",
            "<!-- written by `python -m hushmq.evaluation.replay.replay_recordings`: do not edit -->",
            INTRODUCTION.format(
                rate=1000 // plan.period_ms,
                operator=EPSILON_OPERATOR,
                public=EPSILON_PUBLIC,
                window=plan.window,
                start=_range(START),
                floor=_range(FLOOR),
                ticks=plan.ticks,
            ),
            f"![What was released and the truth; Θ and the recordings' chains]({picture})",
            "## In short",
            _table(("", ""), summary),
            ERRORS,
            *([STOPPED] if received.stopped else []),
            "## Misfit",
            _misfit(ledger["misfit"]),
            "## Devices",
            DEVICES,
            _table(DEVICE_COLUMNS, _devices(result)),
            "## The cohort's windows",
            _table(WINDOW_COLUMNS, _windows(cohort)),
            "",
        ]
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _range(theta: BinaryTheta) -> str:
    return f"q {theta.q_low:.3f}–{theta.q_high:.3f}, r {theta.r_low:.3f}–{theta.r_high:.3f}"


def _theta_of(tree: Any) -> BinaryTheta:
    return BinaryTheta(*tree["q"], *tree["r"])


def _median(found: Sequence[ReleaseComparison]) -> float:
    """The median absolute error."""
    return float(np.median([abs(one.off) for one in found])) if found else float("nan")


def _rms(found: Sequence[ReleaseComparison]) -> float:
    return float(np.sqrt(np.mean([one.off**2 for one in found]))) if found else float("nan")


def _rms_stated(found: Sequence[ReleaseComparison]) -> float:
    errors = [one.release.standard_errors[1] for one in found]
    return float(np.sqrt(np.mean(np.square(errors)))) if found else float("nan")


def _stated(found: Sequence[ReleaseComparison]) -> float:
    """The median absolute value of normal errors with the stated standard errors."""
    errors = [one.release.standard_errors[1] for one in found]
    return float(0.6745 * np.median(errors)) if found else float("nan")


def _held(found: Sequence[ReleaseComparison]) -> str:
    return f"{sum(one.held for one in found)} of {len(found)}"


def _signal(result: ReplayResult, version: int) -> float:
    noise = result.noise(version)
    return 1 - noise.rho0 - noise.rho1


def _misfit(tree: Any) -> str:
    if tree is None:
        return "Not measured: there was too little evidence for a theta update."
    rows = [
        (f"{one['first']}–{one['last']}", f"{one['seen']:.2f} ± {one['error']:.2f}", f"{one['fitted']:.2f}")
        for one in tree["bands"]
    ]
    covered = "Θ covers it" if tree["covered"] else "Θ does not cover it"
    shift = (
        f"Shift of b that gives a chain the correlation seen: {tree['shift']:.2f}; {covered}. The theta updates "
        f"would have shown an excess of {tree['hidden']:.2f} over long lags; above {MOST_UNDETECTABLE:g} Θ is not "
        "narrowed."
    )
    return f"{_table(('lags', 'correlation seen', 'of the fitted chains'), rows)}\n\n{shift}"


def _devices(result: ReplayResult) -> Iterator[Sequence[str]]:
    learned = result.ledger["devices"]
    for sleeper in result.sleepers:
        q, r = sleeper.chain()
        theta = (
            _theta_of(learned[sleeper.name]) if sleeper.name in learned else _theta_of(result.ledger["theta"])
        )
        last = max(result.received.batches[sleeper.name], key=lambda batch: batch.last)
        found = comparisons(result, sleeper.name)
        seen, expected = agreement(result, sleeper)
        yield (
            sleeper.name.upper(),
            f"{q:.3f}",
            f"{r:.3f}",
            f"{theta.q_low:.3f}–{theta.q_high:.3f}",
            f"{theta.r_low:.3f}–{theta.r_high:.3f}",
            "yes" if theta.contains(BinaryTheta.point(q, r)) else "no",
            f"{_signal(result, last.noise):.3f}",
            f"{_median(found):.4f}",
            _held(found),
            f"{seen:.3f}, {expected:.3f}",
        )


def _windows(found: Sequence[ReleaseComparison]) -> Iterator[Sequence[str]]:
    for number, one in enumerate(found, start=1):
        low, high = one.release.intervals[1]
        yield (
            str(number),
            f"{one.truth:.4f}",
            f"{one.release.frequencies[1]:.4f}",
            f"{low:.4f} to {high:.4f}",
            "yes" if one.held else "no",
            f"{one.release.scale:.1f}",
        )


def draw(result: ReplayResult, path: Path) -> None:
    """Draws releases over time with the true shares, and Θ in the plane of (q, r) with the recordings' chains."""
    figure, (over_time, plane) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(3, 2))
    _draw_windows(over_time, comparisons(result, "cohort"))
    _draw_plane(plane, result)
    figure.tight_layout()
    figure.savefig(path, dpi=100, metadata={"Software": None})
    plt.close(figure)


def _draw_windows(axes: Axes, found: Sequence[ReleaseComparison]) -> None:
    numbers = np.arange(1, len(found) + 1)
    released = [one.release.frequencies[1] for one in found]
    off = [(one.release.intervals[1][1] - one.release.intervals[1][0]) / 2 for one in found]
    axes.errorbar(numbers, released, yerr=off, fmt="o", ms=4, lw=1.2, color="#2a6f97", label="released, 95%")
    axes.plot(numbers, [one.truth for one in found], color="#c1121f", lw=1.6, label="truth")
    axes.set_xlabel("window")
    axes.set_ylabel("share of beats above the mean")
    axes.set_title("What readers of releases see, and the truth", fontsize=10)
    axes.legend(frameon=False, fontsize=8)


def _draw_plane(axes: Axes, result: ReplayResult) -> None:
    colours = plt.get_cmap("tab20")
    theta = _theta_of(result.ledger["theta"])
    axes.add_patch(_rectangle(theta, "0.6", fill=True))
    learned = result.ledger["devices"]
    for number, sleeper in enumerate(result.sleepers):
        q, r = sleeper.chain()
        colour = colours(number % 20)
        if sleeper.name in learned:
            axes.add_patch(_rectangle(_theta_of(learned[sleeper.name]), colour))
        axes.plot(q, r, "o", ms=4, color=colour)
        axes.annotate(sleeper.name.upper(), (q, r), fontsize=7, xytext=(3, 3), textcoords="offset points")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.004, 1.0)
    axes.set_ylim(0.004, 1.0)
    axes.set_xlabel("q = P(below → above)")
    axes.set_ylabel("r = P(above → below)")
    axes.set_title("Θ of the cohort (grey), of each device, and its chain", fontsize=10)


def _rectangle(theta: BinaryTheta, colour: Any, *, fill: bool = False) -> Rectangle:
    corner = (theta.q_low, theta.r_low)
    return Rectangle(
        corner,
        theta.q_high - theta.q_low,
        theta.r_high - theta.r_low,
        fill=fill,
        facecolor=colour if fill else "none",
        alpha=0.25 if fill else 0.9,
        edgecolor=colour,
        lw=1.2,
    )
