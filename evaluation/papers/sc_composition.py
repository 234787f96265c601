"""The loss of many releases together: SC's theorems, the quilt bound on the timeline, and the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Finding, Item, Picture, Table
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import price
from hushmq.pufferfish.binary.stream_loss import largest_tilts, optimal_noise
from hushmq.pufferfish.papers.composition_theorems import influence, quilt_price, sc_iii_1, sc_iii_3, sc_iii_7
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.markov_quilt import Mixing, approx
from hushmq.pufferfish.timeline.entry import Entry

ABOUT = """The total loss after a number of releases, on the heart-rate chain N10 (q=.0893, r=.1092), when
every release has the tilt that makes the whole schedule, kept up for ever, cost ε = 1 to who knows the chain.
SC's theorems are given the exact loss of each release alone, which is more than their own mechanisms would
tell them. The ledger prices the sum of tilts, tick by tick."""

THETA = BinaryTheta.point(0.0893, 0.1092)
EPSILON = 1.0
MIXING = Mixing.of([Chain([[1 - 0.0893, 0.0893], [0.1092, 1 - 0.1092]])])
WINDOW = 60
COUNTS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Releases in the order in which they are made."""

    name: str
    releases: Sequence[Entry]


def tau() -> float:
    """The constant tilt with loss ε on an endless stream, against the prior adversary, as in SC."""
    return min(largest_tilts(THETA, EPSILON, "prior"))


def schedules(count: int) -> list[Schedule]:
    """Schedules of tumbling, spaced, sliding and multi-resolution windows with `count` releases each."""
    t, w = tau(), WINDOW
    tumbling = [_window(i * w, w, t) for i in range(count)]
    spaced = [_window(2 * i * w, w, t) for i in range(count)]
    sliding = [_window(i * w // 4, w, t / 4) for i in range(count)]
    several = [_window(i * size, size, t / 3) for size in (w, 4 * w, 16 * w) for i in range(count)]
    several.sort(key=lambda entry: (entry.last, entry.last - entry.first))
    return [
        Schedule("tumbling windows", tumbling),
        Schedule("windows with gaps as long", spaced),
        Schedule("sliding windows, a quarter step", sliding),
        Schedule("windows of 1, 4 and 16 units", several[:count]),
    ]


def _window(first: int, length: int, tilt: float) -> Entry:
    return Entry(first, first + length - 1, tilt, tilt)


def published(releases: Sequence[Entry], stream: Entry | None) -> list[Entry]:
    """The releases and, if given, the sanitized stream up to the last of them."""
    if stream is None:
        return list(releases)
    last = max(entry.last for entry in releases)
    return [*releases, Entry(0, last, stream.tau0, stream.tau1)]


def best_theorem(entries: Sequence[Entry], alone: Sequence[float]) -> float:
    """The smallest bound of those SC theorems that apply.

    III.1 is applied repeatedly on disjoint stretches, with the mechanisms composed so far as one mechanism. III.3 is
    for two runs of MQMApprox and requires a gap as long as the stretches.
    """
    total = sc_iii_7(alone)
    pairs = list(pairwise(entries))
    if all(before.last < entry.first for before, entry in pairs):
        composed = alone[0]
        for (before, entry), epsilon in zip(pairs, alone[1:], strict=True):
            gap = influence(THETA, entry.first - before.last)
            composed = sc_iii_1(composed, epsilon, gap, gap)
        total = min(total, composed)
        if len(entries) == 2 and entries[1].first - entries[0].last > WINDOW:
            a, b = ((entry.first, entry.last) for entry in entries)
            two_sided = None not in approx(MIXING, WINDOW, EPSILON).quilt
            total = min(total, sc_iii_3(*alone, a=a, b=b, two_sided_a=two_sided, two_sided_b=two_sided))
    return total


COLUMNS: dict[str, Callable[[list[Entry], list[float]], float]] = {
    "sum, SC III.7": lambda entries, alone: sc_iii_7(alone),
    "best of SC's": best_theorem,
    "quilts on the timeline": lambda entries, alone: quilt_price(entries, THETA).epsilon,
    "ledger": lambda entries, alone: price(entries, THETA, "prior").epsilon,
    "ledger, any other states known": lambda entries, alone: price(entries, THETA).epsilon,
}
DRAWN = ("ledger", "quilts on the timeline", "sum, SC III.7", "best of SC's")
"""The curves drawn; the informed adversary's ledger is left out because it hides the prior adversary's."""


def run(job: Job) -> Iterator[Item]:
    counts = [count for count in COUNTS if count <= (8 if job.quick else 64)]
    noise = optimal_noise(THETA, EPSILON, "prior")
    stream = Entry(0, 0, noise.tau0, noise.tau1)
    steps, done = 2 * len(schedules(1)) * len(counts), 0
    last: dict[tuple[str, str], list[float]] = {}
    for local, title in ((None, "releases alone"), (stream, "releases beside the local stream")):
        rows: list[list[str | float | int]] = []
        panels = []
        for schedule in schedules(counts[-1]):
            lines: list[list[float]] = []
            for count in counts:
                job.progress(done / steps, f"{schedule.name}, {count} releases")
                entries = published(schedule.releases[:count], local)
                alone = [price([entry], THETA, "prior").epsilon for entry in entries]
                lines.append([column(entries, alone) for column in COLUMNS.values()])
                rows.append([schedule.name, count, *lines[-1]])
                done += 1
            last[title, schedule.name] = lines[-1]
            by = dict(zip(COLUMNS, zip(*lines, strict=True), strict=True))
            curves = [Curve(label, counts, by[label], reference="SC" in label) for label in DRAWN]
            panels.append(Panel(schedule.name, "releases", "total loss ε", curves, logarithmic="xy"))
        name = "releases" if local is None else "with-stream"
        yield Table(name, f"Total loss of {title}", ("schedule", "releases", *COLUMNS), rows)
        yield Picture(name, Figure(f"Total loss of {title}", panels), main=local is None)
    yield from findings(counts[-1], last)


def findings(count: int, last: dict[tuple[str, str], list[float]]) -> Iterator[Item]:
    """Findings from the largest number of releases."""
    alone, beside = "releases alone", "releases beside the local stream"
    tumbling = last[alone, "tumbling windows"]
    yield Finding(
        f"{count} tumbling windows cost {tumbling[0]:.3g} by SC's sum, {tumbling[1]:.3g} by the best of SC's theorems "
        f"and {tumbling[3]:.4g} in the ledger, where they never cost more than {EPSILON:g}.",
        kind="leads",
    )
    spaced = last[alone, "windows with gaps as long"]
    yield Finding(
        f"With gaps as long as the windows SC's Theorem III.1, used again and again, is as good as the ledger: "
        f"{spaced[1]:.4g} against {spaced[3]:.4g}."
    )
    both = last[beside, "tumbling windows"]
    yield Finding(
        f"With the local stream at ε = {EPSILON:g} beside the tumbling windows the ledger has {both[3]:.4g}; SC's "
        f"sum is {both[0]:.3g}, if their theorem covered randomized response, which it does not."
    )
    yield Finding(
        f"Our default adversary also knows any true states but the one attacked, and costs more: {both[4]:.4g} "
        f"instead of {both[3]:.4g} with the local stream. SC promise nothing against such an adversary.",
        kind="loses",
    )
