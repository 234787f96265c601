"""What a guarantee with a δ would save, for streams and for windows, against the true distribution of the loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Table
from hushmq.evaluation.sections.loss_distribution import (
    Ends,
    Values,
    count_delta,
    count_given,
    gaussian_law,
    laplace_law,
    least_parameter,
    spread_of,
    stream_delta,
)
from hushmq.evaluation.sections.recent_methods import chains
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts
from hushmq.pufferfish.thinning.strided_noise import best_stride, strided_noise

ABOUT = """An (ε, δ) guarantee may fail with probability δ, and a Rényi guarantee implies one; the least noise that
reaches δ is therefore a limit for both. δ is computed from the distribution of the loss itself, for the state at one
tick: of a stream of which every m-th tick is published, and of a count of a window with Laplace or Gaussian noise. A
relaxed guarantee would be offered where it brings at least 1.5 times less error at δ = 1e-9."""

DELTA = 1e-9
WORTH = 1.5
"""So many times less error would make a δ worth having."""
NONE = 0.01
"""A standard deviation of counts below which noise is as good as none."""
TICKS = (21, 101, 301, 1001)
ENDS: dict[str, Ends] = {"nothing": (None, None), "both ends 0": (0, 0), "both ends 1": (1, 1)}
STREAM_COLUMNS = ("chain", "ε", "every", "tilt, δ = 0", "tilt, δ = 1e-9", "error saved")
WINDOW_COLUMNS = (
    "chain", "ε", "ticks", "known", "Laplace, δ = 0", "Laplace, δ = 1e-9", "Gaussian, δ = 1e-9", "saved",
)  # fmt: skip


def stream_row(name: str, q: float, r: float, epsilon: float, stride: int) -> list[Cell]:
    """The symmetric tilts of both guarantees at one stride, and the ratio of their noises' standard deviations."""
    noise = strided_noise(q, r, epsilon, stride=stride, adversary="prior").noise
    pure = min(noise.tau0, noise.tau1)

    def delta_of(flip: float) -> float:
        return stream_delta(q, r, flip, stride, epsilon)

    flip = 1 / (1 + math.exp(pure))
    relaxed = flip
    if delta_of(flip * 0.98) <= DELTA:
        relaxed = least_parameter(delta_of, DELTA, flip / 8, flip)
    tilt = math.log((1 - relaxed) / relaxed)
    saved = _deviation(pure) / _deviation(tilt)
    return [name, epsilon, stride, pure, tilt, saved]


def window_row(name: str, q: float, r: float, epsilon: float, ticks: int, known: str) -> list[Cell]:
    """The standard deviations of the noise of one window's count under both guarantees, the middle tick secret.

    Without δ: the noise that holds for every window of the stream, against the prior adversary where nothing is known.
    """
    who: Adversary = "prior" if known == "nothing" else "informed"
    pure = spread_of(laplace_law(1 / min(largest_tilts(BinaryTheta.point(q, r), epsilon, who))))
    given = count_given(q, r, ticks, ENDS[known])
    least = [spread_of(law(_least(law, given, epsilon))) for law in (laplace_law, gaussian_law)]
    return [name, epsilon, ticks, known, pure, *least, pure / max(min(least), NONE)]


def run(job: Job) -> Iterator[Item]:
    listed = chains(job)
    streams: list[list[Cell]] = []
    windows: list[list[Cell]] = []
    for place, (name, (q, r)) in enumerate(listed.items()):
        for number, epsilon in enumerate((1.0, 4.0)):
            job.progress((place + number / 2) / len(listed), f"{name}, ε = {epsilon:g}")
            best = best_stride(q, r, epsilon, "prior").stride
            streams += [stream_row(name, q, r, epsilon, stride) for stride in sorted({1, best})]
            windows += [window_row(name, q, r, epsilon, ticks, known) for ticks in TICKS for known in ENDS]
    yield Table("streams", "Streams, against the prior adversary", STREAM_COLUMNS, streams, main=True)
    yield Table("windows", "One count: standard deviation of the noise", WINDOW_COLUMNS, windows)
    summary = worst_known(windows)
    yield Table(
        "summary",
        "One count: what a δ saves",
        ("chain", "ε", "noise, δ = 0", "one long window, nothing known", "worst length and ends known"),
        summary,
        note=f"Longest window: {TICKS[-1]} ticks. Saved: standard deviation without δ over the one with it.",
        main=True,
    )
    yield from findings(streams, summary)


def worst_known(windows: list[list[Cell]]) -> list[list[Cell]]:
    """By chain and ε: what δ saves for the longest window, and over all lengths if its ends may be known."""
    found: dict[tuple[Cell, Cell], list[Cell]] = {}
    for name, epsilon, ticks, known, pure, *_, saved in windows:
        row = found.setdefault((name, epsilon), [name, epsilon, pure, None, math.inf])
        if known == "nothing" and ticks == TICKS[-1]:
            row[3] = saved
        if known != "nothing":
            row[4] = min(float(row[4] or 0), float(saved or 0))
    return list(found.values())


def findings(streams: list[list[Cell]], summary: list[list[Cell]]) -> Iterator[Item]:
    """Whether a δ is worth having, and why not."""
    best: dict[tuple[Cell, Cell], tuple[int, float]] = {}
    for name, epsilon, stride, *_, saved in streams:
        best[name, epsilon] = max(best.get((name, epsilon), (0, 0.0)), (int(stride or 0), float(saved or 0)))
    at_best = [saved for _, saved in best.values()]
    every = [float(row[5] or 0) for row in streams if row[2] == 1]
    yield Finding(
        f"Streams: at the best stride a δ of 1e-9 saves a factor of at most {max(at_best):.2f}. Publishing every tick "
        f"it would save up to {max(every):.1f}, but a stride saves more than that and costs no δ. Not offered.",
    )
    known = [float(row[4] or 0) for row in summary]
    alone = sum(float(row[3] or 0) > WORTH for row in summary)
    yield Finding(
        f"Windows: in {alone} of {len(summary)} cases one long count alone would need hardly any noise with a δ, since "
        "what the other ticks do hides one of them. That ends as soon as two states some dozens of ticks away are "
        f"known, or a shorter window is released too: then a δ saves a factor of {min(known):.2f} to {max(known):.2f}. "
        + (
            "Not offered: it would rest on nobody knowing anything, and on one length of windows."
            if min(known) < WORTH
            else f"That is more than {WORTH:g} on every chain here."
        ),
        kind="finding" if min(known) < WORTH else "loses",
    )


def _least(law: Callable[[float], Values], given: tuple[Values, Values], epsilon: float) -> float:
    """The least parameter of a noise that reaches δ."""
    return least_parameter(lambda own: count_delta(given, law(own), epsilon), DELTA, 1e-3, 10.0)


def _deviation(tilt: float) -> float:
    """The standard deviation of one reported bit's estimate."""
    noise = BinaryNoise.of_tilts(tilt, tilt)
    return math.sqrt(noise.rho0 * (1 - noise.rho0)) / noise.signal
