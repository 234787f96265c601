"""Methods of the last years on correlated streams: what each promises, what is true, and its error at the same loss."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hushmq.evaluation.recordings import fitted, room, sleepers
from hushmq.evaluation.section_list import Job, Missing
from hushmq.evaluation.section_report import Cell, Finding, Item, Table
from hushmq.evaluation.sections import limits
from hushmq.evaluation.sections.compared_methods import scale_of
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts
from hushmq.pufferfish.false_position import largest_within
from hushmq.pufferfish.papers import markov_bdp_bound, memoised_response, temporal_leakage, wasserstein
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.thinning.stride_search import share_variance
from hushmq.pufferfish.thinning.strided_chain import strided_loss
from hushmq.pufferfish.thinning.strided_noise import best_stride, strided_noise

ABOUT = """Each method adds noise to a stream of two states that follows a known chain, set to an ε in its own terms.
Its true loss is exact, against an adversary who knows the chain (prior) and against one who also knows states at
other ticks (informed). Errors are standard deviations of one device's share in a window of 3,600 ticks, as the method
is set and when it is set so that its true prior loss is ε. *w-event* is LDP-IDS (Ren et al. 2022) with w = 20: its
budget division gives every tick ε/w, its population division lets a device speak once in w ticks with the whole ε;
its adaptive variants choose between these by a cohort's data and are bounded by them. *TPL* is the temporal privacy
leakage of Cao et al. (2018), *Lange* the bound of Lange et al. (2025) for Markov chains, *memoised* the permanent
answers of RAPPOR, which LOLOHA and others share. Windows are compared with the Wasserstein mechanism, for which
Pierquin et al. (2024) give Gaussian noise and a Rényi guarantee. Bai et al. (2026), of whom only the abstract was
at hand, bound by a curve a(b) what is lost by everything whose likelihood changes by at most e^b with one state: the
third table has how far below ours such a curve can lie at all."""

EPSILONS = (1.0, 4.0)
WINDOW = 3600
EVENTS = 20
"""w of w-event privacy: as many consecutive ticks share one budget."""
COUNTED = 100
"""Ticks of a window for which the distance of the Wasserstein mechanism is computed."""
DELTA = 1e-9


@dataclass(frozen=True, slots=True)
class Method:
    """A method as it is set for an ε: its symmetric tilt at every `stride`-th tick; None where it has no answer."""

    name: str
    promise: str
    tilt: float | None
    stride: int = 1


def chains(job: Job) -> dict[str, tuple[float, float]]:
    """Two synthetic chains, and those of recordings where they are at hand; in a quick run the first."""
    found = {"q = r = .05": (0.05, 0.05)}
    if job.quick:
        return found
    found["q = r = .01"] = (0.01, 0.01)
    try:
        night = next(one for one in sleepers(job) if one.subject == "N10")
        found["heart rate N10"] = _rates(fitted([night]))
        found["occupancy"] = _rates(fitted([room(job)]))
    except Missing:
        job.progress(0.0, "recordings are missing: synthetic chains only")
    return found


def methods(q: float, r: float, epsilon: float) -> list[Method]:
    """Those that perturb each published tick by itself."""
    chain = Chain([[1 - q, q], [r, 1 - r]])
    lange = markov_bdp_bound.largest_tilt(chain, epsilon)
    return [
        Method("randomized response", "ε of each tick, the others given", epsilon),
        Method("w-event, budget division", f"ε of any {EVENTS} ticks in a row", epsilon / EVENTS),
        Method("w-event, population division", f"ε of any {EVENTS} ticks in a row", epsilon, EVENTS),
        Method("TPL", "ε of each tick, chain known", temporal_leakage.largest_tilt(chain, epsilon)),
        Method("Lange", "ε of each tick, chain and other ticks known", lange or None),
    ]


def error(q: float, r: float, noise: BinaryNoise, stride: int) -> float:
    """The standard deviation of a window's share."""
    return math.sqrt(share_variance(q, r, noise, stride) / WINDOW)


def memoised_error(q: float, r: float, epsilon: float) -> float:
    """The same for one device with permanent answers: more ticks do not lower it."""
    flip, ones = memoised_response.flip_probability(epsilon), q / (q + r)
    return math.sqrt(flip * (1 - flip) * (ones**2 + (1 - ones) ** 2)) / (1 - 2 * flip)


def memoised_epsilon(q: float, r: float, epsilon: float) -> float | None:
    """The parameter with which permanent answers lose ε in a window; None if they lose more with any noise."""
    if memoised_response.worst_loss(q, r, 1e-9, WINDOW) > epsilon:
        return None
    return largest_within(lambda own: memoised_response.worst_loss(q, r, own, WINDOW), epsilon, epsilon, 1e-6)


def rows(name: str, q: float, r: float, epsilon: float) -> Iterator[list[Cell]]:
    """The rows of one chain and ε: chain, ε, method, promise, tilt, stride, both true losses, both errors."""
    for one in methods(q, r, epsilon):
        true = strided_noise(q, r, epsilon, stride=one.stride, adversary="prior").noise
        alike = BinaryNoise.of_tilts(*[min(true.tau0, true.tau1)] * 2)
        cells: list[Cell] = [None, None, None]
        if one.tilt is not None:
            tilts = (one.tilt, one.tilt)
            cells = [
                *(strided_loss(q, r, *tilts, stride=one.stride, adversary=who) for who in WHO),
                error(q, r, BinaryNoise.of_tilts(*tilts), one.stride),
            ]
        yield [
            name, epsilon, one.name, one.promise, one.tilt, one.stride, *cells, error(q, r, alike, one.stride)
        ]  # fmt: skip
    own = memoised_epsilon(q, r, epsilon)
    memoised_loss = memoised_response.worst_loss(q, r, epsilon, WINDOW)
    yield [
        name, epsilon, "memoised", "ε of each value, for ever", None, 1, memoised_loss, None,
        memoised_error(q, r, epsilon), None if own is None else memoised_error(q, r, own),
    ]  # fmt: skip
    for who in WHO:
        for label, found in (
            ("ours, every tick", strided_noise(q, r, epsilon, stride=1, adversary=who)),
            ("ours, best stride", best_stride(q, r, epsilon, who)),
        ):
            tilts = (found.noise.tau0, found.noise.tau1)
            at_prior = strided_noise(q, r, epsilon, stride=found.stride, adversary="prior")
            yield [
                name, epsilon, f"{label}, {who}", f"ε of every tick, {who} adversary", max(tilts), found.stride,
                *(strided_loss(q, r, *tilts, stride=found.stride, adversary=one) for one in WHO),
                error(q, r, found.noise, found.stride), error(q, r, at_prior.noise, found.stride),
            ]  # fmt: skip


WHO: tuple[Adversary, Adversary] = ("prior", "informed")
WINDOW_COLUMNS = (
    "chain", "ε", "W∞", "Wasserstein, Laplace", f"Rényi, Gaussian, δ = {DELTA:g}", "ours, prior", "ours, informed"
)  # fmt: skip
COLUMNS = (
    "chain", "ε", "method", "promise", "tilt", "every", "true loss, prior", "true loss, informed", "error as set",
    "error at true loss ε",
)  # fmt: skip


def window_row(name: str, q: float, r: float, epsilon: float) -> list[Cell]:
    """One count of a window: the standard deviations of the Wasserstein mechanism's noise and of ours."""
    chain = Chain([[1 - q, q], [r, 1 - r]])
    moved = max(wasserstein.distance(*pair) for pair in wasserstein.of_chain(chain, COUNTED, (0, 1)))
    tilts = [min(largest_tilts(BinaryTheta.point(q, r), epsilon, who)) for who in WHO]
    return [
        name, epsilon, moved, math.sqrt(2) * moved / epsilon, renyi_sigma(moved, epsilon),
        *(math.sqrt(2) / tilt for tilt in tilts),
    ]  # fmt: skip


def renyi_sigma(moved: float, epsilon: float) -> float:
    """The least Gaussian σ whose Rényi guarantee of some order α, α·moved²/2σ², gives (ε, δ).

    ε = α·moved²/2σ² + log(1/δ)/(α−1), where the best order is 1 + σ·√(2·log(1/δ))/moved.
    """
    lost = math.log(1 / DELTA)
    # With s = moved/σ: ε = s²/2 + s·√(2·log(1/δ)).
    return moved / (math.sqrt(2 * lost + 2 * epsilon) - math.sqrt(2 * lost))


def run(job: Job) -> Iterator[Item]:
    listed, epsilons = chains(job), EPSILONS[:1] if job.quick else EPSILONS
    found: list[list[Cell]] = []
    windows: list[list[Cell]] = []
    for place, (name, (q, r)) in enumerate(listed.items()):
        for number, epsilon in enumerate(epsilons):
            job.progress((place + number / len(epsilons)) / len(listed), f"{name}, ε = {epsilon:g}")
            found += rows(name, q, r, epsilon)
            windows.append(window_row(name, q, r, epsilon))
    yield Table("streams", "Streams: promises, true losses and errors", COLUMNS, found, main=True)
    yield Table(
        "windows",
        f"One count of {COUNTED} ticks: standard deviation of the noise",
        WINDOW_COLUMNS,
        windows,
        main=True,
    )
    curves: list[list[Cell]] = []
    try:
        for name, chain in limits.chains(job).items():
            job.progress(1.0, f"influence on {name}")
            curves += [influence_row(name, chain, epsilon) for epsilon in epsilons]
    except Missing as missing:
        yield Finding(f"influence curves: {missing}", kind="skipped")
    title = "How much one release may depend on one state, for a loss of ε"
    yield Table("influence", title, INFLUENCE_COLUMNS, curves, main=True)
    yield from findings(found, windows, curves)


INFLUENCE_COLUMNS = ("chain", "ε", "b, ours", "b that loses more than ε", "at most so many times ours")


def influence_row(name: str, chain: Chain, epsilon: float) -> list[Cell]:
    """The b at which our a(b) is ε, and one at which every a(b) is above it, since some count with that b loses more.

    A count with Laplace noise of scale 1/b changes its likelihood by at most e^b with one state.
    """
    ours, least = (scale_of(method, [chain], None, epsilon) for method in ("tilted-quilt", "limit"))
    if ours is None or least is None:
        raise RuntimeError(f"{name} has no scale")
    return [name, epsilon, 1 / ours, 1 / least, ours / least]


def findings(found: list[list[Cell]], windows: list[list[Cell]], curves: list[list[Cell]]) -> Iterator[Item]:
    """What the tables say, wins and losses."""
    at = [dict(zip(COLUMNS, row, strict=True)) for row in found]

    def pairs(method: str, *columns: str) -> list[tuple[float, ...]]:
        rows = [[row[column] for column in columns] for row in at if row["method"] == method]
        return [tuple(float(cell) for cell in row if cell is not None) for row in rows if None not in row]

    def values(method: str, column: str) -> list[float]:
        return [value for (value,) in pairs(method, column)]

    plain = [loss / epsilon for loss, epsilon in pairs("randomized response", "true loss, prior", "ε")]
    yield Finding(
        f"Randomized response with ε on every tick really loses {min(plain):.1f} to {max(plain):.1f} times ε to an "
        "adversary who knows the chain."
    )
    ours = values("ours, best stride, prior", "error as set")
    gains = [a / b for a, b in zip(values("TPL", "error as set"), ours, strict=True)]
    yield Finding(
        f"At the same promise TPL has {min(gains):.2f} to {max(gains):.2f} times our error: it has no strides, and one "
        "tilt for both states. For two states its leakage itself equals our exact loss against the prior adversary: "
        "Cao et al. had that first. It does not hold against the informed one.",
        kind="leads",
    )
    divided = values("w-event, population division", "error at true loss ε")
    over = [a / b for a, b in zip(divided, ours, strict=True)]
    yield Finding(
        f"Population division is a stride under another name: set to the true loss it has {min(over):.2f} to "
        f"{max(over):.2f} times our error, for a w that nobody adapted to the chain. Its promise, ε of w ticks, is "
        "below its true loss wherever the chain remembers longer than w.",
        kind="loses" if min(over) < 1.05 else "leads",
    )
    yield Finding(
        f"The bound of Lange et al. has an answer in {len(values('Lange', 'tilt'))} of {len(ours)} cases: elsewhere "
        "its floor 4·ln γ is above ε.",
        kind="leads",
    )
    fails = sum(row["error at true loss ε"] is None for row in at if row["method"] == "memoised")
    yield Finding(
        "Permanent answers lose more than ε on an asymmetric chain whatever their noise "
        f"({fails} of {len(ours)} cases), since the order of repeated answers tells which one stands for which state. "
        "On a symmetric chain they keep ε for ever, which no fresh noise of that tilt does; their error does not fall "
        "with the ticks, only with the devices.",
        kind="loses",
    )
    spared = [float(row[3] or 0) / float(row[5] or 1) for row in windows]
    yield Finding(
        f"For one count of {COUNTED} ticks the Wasserstein mechanism adds {min(spared):.2f} to {max(spared):.2f} times "
        "our noise. Ours is for an endless row of such windows, its for a single one: on chains that remember longer "
        "than the window lasts, W∞ is at most the window's length and that is less than we need.",
        kind="loses" if min(spared) < 1 else "leads",
    )
    yield Finding(
        "Gaussian noise with a Rényi guarantee adds several times more than Laplace noise at δ = 1e-9. Pierquin et al. "
        "have sharper variants; the section on relaxed accounting has the least noise that any of them could reach."
    )
    if not curves:
        return
    two, more = (
        [float(row[4] or 0) for row in curves if (", 2 states" in str(row[0])) == binary]
        for binary in (True, False)
    )
    yield Finding(
        "Bai et al. (2026) prove that Pufferfish losses add up linearly only where the mechanism also keeps an "
        "inequality as of differential privacy. A tilt is one: it bounds by how much an output's likelihood changes "
        "with the state at one tick, whatever the others are. So every stream and release of ours is of their kind, "
        "tilts add up, and the loss as a function of their sum is our a(b). With two states no curve a(b) can be "
        f"below it: {max(two):.6f} times our b loses more than ε."
    )
    yield Finding(
        f"With more states another curve might allow up to {max(more):.3f} times our b on these chains. Whether theirs "
        "is such a curve their abstract does not tell.",
        kind="loses",
    )


def _rates(chain: Chain) -> tuple[float, float]:
    return float(chain.transition[0, 1]), float(chain.transition[1, 0])
