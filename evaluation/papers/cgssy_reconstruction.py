"""CGSSY Figure 4: reconstruction of a stream by Viterbi and an LSTM, on synthetic data and on two sleepers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from hushmq.evaluation.attackers import forward_backward, lstm, viterbi
from hushmq.evaluation.attackers.hidden import Hidden, States
from hushmq.evaluation.attackers.lstm import Training
from hushmq.evaluation.recordings import fitted, sleepers
from hushmq.evaluation.section_list import Job, Missing
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.papers import cgssy

ABOUT = """CGSSY's Figure 4: the share of a sanitized stream that an attacker gets right, on a synthetic stream of the
chain of N10 and on the heart rates of N10 and N5, binary at the record's mean. The noise is CGSSY's
Corollary 1 for ε, with q and r counted in the record. Viterbi and forward–backward know the chain; the LSTM
has no chain in mind and is trained on true states of the same record, which no real attacker has, and judged on
blocks it was not trained on. CGSSY's bound on success is printed with the wrong ratio of q and r: who always
guesses the commoner state can pass it. The bound that holds is drawn beside it."""

SYNTHETIC = (0.0893, 0.1092)
LENGTH = 26_923
SUBJECTS = ("N10", "N5")
EPSILONS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)
LEARNED = (1.0, 2.0, 3.0, 4.0, 5.0)
"""The ε at which the LSTM is trained, which takes nearly all of the time."""


@dataclass(frozen=True, slots=True)
class BinaryRecord:
    """A binary stream, and its chain: fitted to it, or the one it was sampled from."""

    name: str
    q: float
    r: float
    states: States

    @property
    def commoner(self) -> float:
        """The success of always guessing the more frequent state."""
        ones = float(self.states.mean())
        return max(ones, 1 - ones)


@dataclass(frozen=True, slots=True)
class ReconstructionResult:
    """One record and ε: the noise, and the success of each attacker."""

    record: BinaryRecord
    epsilon: float
    noise: BinaryNoise
    viterbi: float
    smoothed: float
    ours: float
    """The success of forward–backward against our noise for the same ε."""
    learned: float | None

    @property
    def printed(self) -> float:
        return cgssy.success_as_printed(self.epsilon, self.record.q, self.record.r)

    @property
    def bound(self) -> float:
        return cgssy.success_bound(self.epsilon, self.record.q, self.record.r)

    def row(self) -> list[Cell]:
        """As a row of the table."""
        real = loss(
            BinaryTheta.point(self.record.q, self.record.r), tau0=self.noise.tau0, tau1=self.noise.tau1
        )
        return [
            *(self.record.name, self.epsilon, self.noise.rho0, self.noise.rho1, real),
            *(self.viterbi, self.smoothed, self.learned, self.ours),
            *(self.record.commoner, self.printed, self.bound),
        ]


COLUMNS = (
    *("record", "ε", "ρ0", "ρ1", "real loss, informed"),
    *("Viterbi", "forward–backward", "LSTM", "forward–backward, our noise"),
    *("commoner state", "bound as printed", "bound that holds"),
)


def run(job: Job) -> Iterator[Item]:
    records = [_synthetic(job)]
    try:
        records += _recorded(job)
    except Missing as missing:
        yield Finding(f"N10 and N5: {missing}.", kind="skipped")
    learns = lstm.available()
    if not learns:
        yield Finding("the LSTM: PyTorch is not installed (pip install 'hushmq[lstm]').", kind="skipped")
    epsilons = EPSILONS[1::4] if job.quick else EPSILONS
    learned = () if not learns else LEARNED[:1] if job.quick else LEARNED
    training = Training(window=15, width=8, steps=60, folds=2) if job.quick else Training()
    steps = len(records) * (len(epsilons) + 8 * training.folds * len(learned))
    done = 0

    def advance(by: int, doing: str) -> None:
        nonlocal done
        done += by
        job.progress(done / steps, doing)

    points = []
    for record in records:
        for epsilon in epsilons:
            doing = f"{record.name}, ε = {epsilon:g}"
            advance(1, doing)
            teach = training if epsilon in learned else None
            points.append(_point(job, record, epsilon, teach, partial(advance, 8, f"LSTM, {doing}")))
    yield Table("figure-4", "Share of states reconstructed", COLUMNS, [point.row() for point in points])
    yield _picture(records, points)
    yield from _findings(points)


def _synthetic(job: Job) -> BinaryRecord:
    q, r = SYNTHETIC
    # The noise of a Hidden does not affect its paths.
    paths = Hidden(q, r, BinaryNoise(0.25, 0.25)).paths(
        1, LENGTH // (10 if job.quick else 1), job.rng("synthetic")
    )
    return BinaryRecord("synthetic", q, r, paths[0])


def _recorded(job: Job) -> list[BinaryRecord]:
    """The two sleepers; a tenth of each in a quick run."""
    records = []
    for recording in sleepers(job):
        if recording.subject in SUBJECTS:
            step = fitted([recording]).transition
            states = recording.states().astype(np.uint8)
            part = states[: len(states) // (10 if job.quick else 1)]
            records.append(BinaryRecord(recording.subject, float(step[0][1]), float(step[1][0]), part))
    return sorted(records, key=lambda record: SUBJECTS.index(record.name))


def _point(
    job: Job, record: BinaryRecord, epsilon: float, teach: Training | None, advance: Callable[[], None]
) -> ReconstructionResult:
    rng = job.rng(record.name, epsilon)
    theirs = Hidden(record.q, record.r, cgssy.corollary_1(record.q, record.r, epsilon))
    ours = Hidden(record.q, record.r, optimal_noise(BinaryTheta.point(record.q, record.r), epsilon))
    outputs = theirs.sanitize(record.states, rng)

    def share(guesses: States) -> float:
        return float((guesses[0] == record.states).mean())

    return ReconstructionResult(
        record,
        epsilon,
        theirs.noise,
        viterbi=share(viterbi.guess(theirs, outputs[None])),
        smoothed=share(forward_backward.guess(theirs, outputs[None])),
        ours=share(forward_backward.guess(ours, ours.sanitize(record.states, rng)[None])),
        learned=lstm.success(record.states, outputs, teach, seed=int(rng.integers(1 << 31)), advance=advance)
        if teach
        else None,
    )


def _picture(records: Sequence[BinaryRecord], points: Sequence[ReconstructionResult]) -> Picture:
    panels = []
    for record in records:
        mine = [point for point in points if point.record is record]
        x = [point.epsilon for point in mine]
        taught = [(point.epsilon, point.learned) for point in mine if point.learned is not None]
        curves = [
            Curve("Viterbi", x, [point.viterbi for point in mine], dots=True),
            Curve("forward–backward", x, [point.smoothed for point in mine], dots=True),
            *([Curve("LSTM", [e for e, _ in taught], [p for _, p in taught], dots=True)] if taught else []),
            Curve("bound as printed", x, [point.printed for point in mine], reference=True),
            Curve("bound that holds", x, [point.bound for point in mine], reference=True),
            Curve("commoner state", [x[0], x[-1]], [record.commoner] * 2, reference=True),
        ]
        title = f"{record.name}: q = {record.q:.4f}, r = {record.r:.4f}"
        panels.append(Panel(title, "ε", "share of states right", curves, from_zero=False))
    return Picture(
        "figure-4", Figure("CGSSY Figure 4: reconstruction of a sanitized stream", panels), main=True
    )


def _findings(points: Sequence[ReconstructionResult]) -> Iterator[Item]:
    above = [
        point for point in points if max(point.viterbi, point.smoothed, point.learned or 0) > point.printed
    ]
    beyond = [
        point for point in points if max(point.viterbi, point.smoothed, point.learned or 0) > point.bound
    ]
    yield Finding(
        f"No attacker passes the bound that holds in {len(points) - len(beyond)} of {len(points)} cases; the "
        f"bound as CGSSY print it is passed in {len(above)}"
        + (f", as on {above[0].record.name} at ε = {above[0].epsilon:g}" if above else "")
        + ". Both speak of the worst outputs, the attackers meet average ones: that they stay far below says little."
    )
    real = [point for point in points if point.record.name in SUBJECTS]
    if real:
        gap = max(real, key=lambda point: abs(point.viterbi - point.smoothed))
        yield Finding(
            f"Real heart rate is no first-order chain: on {gap.record.name} at ε = {gap.epsilon:g} Viterbi "
            f"gets {gap.viterbi:.1%}, forward–backward, the best there is if it were one, "
            f"{gap.smoothed:.1%}."
        )
    taught = [(point, point.learned) for point in points if point.learned is not None]
    if taught:
        best, gain = max(
            ((point, share - point.viterbi) for point, share in taught), key=lambda pair: pair[1]
        )
        least, loses = min(
            ((point, share - point.viterbi) for point, share in taught), key=lambda pair: pair[1]
        )
        yield Finding(
            f"The LSTM against Viterbi: between {100 * loses:+.1f} points ({least.record.name}, ε = "
            f"{least.epsilon:g}) and {100 * gain:+.1f} points ({best.record.name}, ε = {best.epsilon:g})."
        )
