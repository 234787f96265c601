"""The misfit of first-order chains on real recordings: its effect on the guarantee, and the gain of an attacker."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hushmq.evaluation.attackers.bands import guesses
from hushmq.evaluation.recordings import Recording, household, people, room, sleepers
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.evaluation.sections.higher_order import Bits, Floats, Model
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise

ABOUT = """A guarantee holds for the chains in Θ. Real data is no first-order chain: it stays correlated far
longer than its neighbours in time suggest. Models that look further back (the next bit depends on the last 1
to 8) are fitted to the recordings; under each we ask how much the noise really loses if the model were true,
at least (for the output that never changes), and how an attacker fares who runs the forward–backward
algorithm with it on the sanitized recording. This attacker has seen the raw recording, which is the worst
case. A second attacker assumes no chain: it is given the states of every second stretch of 1,000 beats, learns
there how the sanitized samples up to a distance tell of a state, and guesses the others. "Covering" noise is
made for a chain with the same share of ones and a λ so large that λ^h is no less than the correlation
measured at every lag h up to a reach."""

LAGS = (1, 10, 100, 1000)
REACHES = (1, 10, 100)
ORDERS = (1, 2, 4, 6, 8)
STRETCH = 1000
ATTACKED = (1, 3, 10, 30, 100, 300, 1000)
EPSILONS = (1.0, 2.0, 4.0)


def correlations(pieces: Sequence[Bits], lags: Sequence[int]) -> list[float]:
    """The autocorrelation at each lag, over pairs of ticks within a piece."""
    mean = float(np.concatenate(list(pieces)).mean())
    found = []
    for lag in lags:
        pairs = [((piece[:-lag] - mean) * (piece[lag:] - mean)) for piece in pieces if len(piece) > lag]
        found.append(float(np.concatenate(pairs).mean()) / (mean * (1 - mean)) if pairs else math.nan)
    return found


def covering(pieces: Sequence[Bits], reach: int) -> BinaryTheta:
    """The chain whose λ^h is at least the correlation at every lag h ≤ reach."""
    mean = float(np.concatenate(list(pieces)).mean())
    lags = range(1, reach + 1)
    lam = max(max(c, 0.0) ** (1 / lag) for lag, c in zip(lags, correlations(pieces, lags), strict=True))
    return BinaryTheta.point((1 - lam) * mean, (1 - lam) * (1 - mean))


@dataclass(frozen=True, slots=True)
class AttackResult:
    """The result of an attack: the share of correct guesses, and the largest change of the log odds of an instant."""

    right: float
    moved: float


def sanitized(bits: Bits, noise: BinaryNoise, rng: np.random.Generator) -> Bits:
    """The recording under simulated noise."""
    flips = rng.random(len(bits)) < np.where(bits == 1, noise.rho1, noise.rho0)
    return np.asarray(bits ^ flips, dtype=np.int64)


def attack(model: Model, bits: Bits, noise: BinaryNoise, rng: np.random.Generator) -> AttackResult:
    """Sanitizes the recording and estimates every bit with the model."""
    posterior = np.clip(model.posteriors(sanitized(bits, noise, rng), noise), 1e-15, 1 - 1e-15)
    prior = float(model.law[1::2].sum())
    moved = np.abs(_logit(posterior) - math.log(prior / (1 - prior)))
    return AttackResult(float(((posterior > 0.5) == (bits == 1)).mean()), float(moved.max()))


def _logit(p: Floats) -> Floats:
    return np.asarray(np.log(p / (1 - p)), dtype=np.float64)


def worst(model: Model, noise: BinaryNoise) -> float:
    """The larger loss of the two constant outputs."""
    return max(model.constant_loss(noise.tau0, 0), model.constant_loss(noise.tau1, 1))


def recordings(job: Job) -> list[Recording]:
    """All recordings, as two states."""
    house = household(job)
    mean = house.states().mean()
    feet = [piece >= 2 for one in people(job) for piece in one.pieces]
    return [
        *sleepers(job),
        Recording("activity, on their feet", 2, [piece.astype(np.int64) for piece in feet]),
        Recording("occupancy", 2, room(job).pieces),
        Recording("power above its mean", 2, [(piece >= mean).astype(np.int64) for piece in house.pieces]),
    ]


def run(job: Job) -> Iterator[Item]:
    known = recordings(job)
    yield from _departures(known)
    subjects = ("N10",) if job.quick else ("N10", "N5")
    orders = (1, 4) if job.quick else ORDERS
    epsilons = (2.0,) if job.quick else EPSILONS
    ticks = 4000 if job.quick else None
    steps, done = len(subjects) * len(epsilons) * len(orders), 0
    rows: list[list[Cell]] = []
    panels = []
    for subject in subjects:
        bits = next(one for one in known if one.subject == subject).states()[:ticks]
        half = len(bits) // 2
        models = {order: Model.fit(bits, order) for order in orders}
        curves = []
        for epsilon in epsilons:
            noise = optimal_noise(covering([bits], 1), epsilon)
            losses = []
            for order, model in models.items():
                job.progress(done / steps, f"{subject}, ε = {epsilon:g}, order {order}")
                done += 1
                found = attack(model, bits, noise, job.rng(subject, epsilon))
                losses.append(worst(model, noise))
                coded = Model.fit(bits[:half], order).bits_per_tick(bits[half:])
                rows.append([subject, epsilon, order, coded, losses[-1], found.moved, found.right])
            curves.append(Curve(f"noise for ε = {epsilon:g}", orders, losses, dots=True))
            curves.append(
                Curve(f"ε = {epsilon:g}", [orders[0], orders[-1]], [epsilon, epsilon], reference=True)
            )
        panels.append(Panel(subject, "bits the model looks back", "loss, at least", curves))
    yield Table(
        "orders",
        "Noise made for the chain fitted at lag 1, if a model that looks further back is true",
        (
            "recording",
            "ε",
            "bits back",
            "bits/tick, second half",
            "loss, at least",
            "log odds moved, most",
            "attacker right",
        ),
        rows,
    )
    yield Picture("orders", Figure("What noise for a first-order chain really loses", panels))
    covered = list(_covered(job, subjects, known, epsilons, orders[-1], ticks))
    yield Table(
        "covering",
        f"Noise that covers the correlation up to a lag, against the model that looks {orders[-1]} bits back",
        (
            "recording",
            "ε",
            "covers lags to",
            "λ",
            "signal 1−ρ0−ρ1",
            "loss, at least",
            "log odds moved, most",
            "attacker right",
        ),
        covered,
        main=True,
    )
    yield from _reaches(job, subjects, known, epsilons, ticks)
    ten = next(one for one in known if one.subject == "N10").states()[:ticks]
    drift = Model.fit(ten, orders[-1]).drift(Model.fit(ten, 1))
    yield Finding(
        f"SWC's Theorem 2.4, ε + 2Δ for who believes in a chain outside Θ, is no help: between the models of "
        f"N10 that look {orders[-1]} bits and one bit back, Δ grows by {drift:.2g} for every tick."
    )
    yield from findings(rows, covered)


def _reaches(
    job: Job,
    subjects: Sequence[str],
    known: Sequence[Recording],
    epsilons: Sequence[float],
    ticks: int | None,
) -> Iterator[Item]:
    """The success of the model-free attacker over its largest lag."""
    rows: list[list[Cell]] = []
    panels = []
    listed = (1, 30, 1000) if job.quick else ATTACKED
    for subject in subjects:
        bits = next(one for one in known if one.subject == subject).states()[:ticks]
        revealed = np.arange(len(bits)) // STRETCH % 2 == 0
        secret = bits[~revealed] == 1
        common = float(max(secret.mean(), 1 - secret.mean()))
        curves = []
        for epsilon in epsilons:
            noise = optimal_noise(covering([bits], 1), epsilon)
            seen = sanitized(bits, noise, job.rng(subject, epsilon))
            posterior = Model.fit(bits, 1).posteriors(seen, noise)[~revealed]
            chain = float(((posterior > 0.5) == secret).mean())
            guessed = [guesses(bits, seen, reach, revealed) > 0.5 for reach in listed]
            right = [float((guess == secret).mean()) for guess in guessed]
            rows += [
                [subject, epsilon, reach, one, chain, common]
                for reach, one in zip(listed, right, strict=True)
            ]
            gained = [100 * (one - common) for one in (*right, chain)]
            curves.append(Curve(f"ε = {epsilon:g}", listed, gained[:-1], dots=True))
            ends = [listed[0], listed[-1]]
            label = f"forward–backward, ε = {epsilon:g}"
            curves.append(Curve(label, ends, gained[-1:] * 2, reference=True))
        y = "points better than saying the commoner state"
        panels.append(Panel(subject, "distance it looks, beats", y, curves, logarithmic="x"))
    yield Table(
        "reaches",
        "An attacker who looks further than a chain remembers: share of states guessed right",
        ("recording", "ε", "looks", "right", "forward–backward, chain at lag 1", "always the commoner state"),
        rows,
    )
    title = "What long lags give an attacker; noise for the chain at lag 1"
    yield Picture("reaches", Figure(title, panels), main=True)
    last = {row[1]: row for row in rows if row[0] == "N10" and row[2] == listed[-1]}
    yield Finding(
        f"On N10, sanitized for the chain fitted at lag 1, an attacker who looks {listed[-1]} beats around guesses "
        + ", ".join(f"{row[3]:.1%} of the states at ε = {epsilon:g}" for epsilon, row in last.items())
        + "; the forward–backward attacker with that chain "
        + ", ".join(f"{row[4]:.1%}" for row in last.values())
        + f"; who always says the commoner state {last[epsilons[0]][5]:.1%}.",
        kind="loses",
    )


def _departures(known: Sequence[Recording]) -> Iterator[Item]:
    rows: list[list[Cell]] = []
    for one in known:
        found = correlations(one.pieces, LAGS)
        cells = [value for lag, c in zip(LAGS, found, strict=True) for value in (c, found[0] ** lag)]
        rows.append([one.subject, *(None if math.isnan(cell) else round(cell, 6) for cell in cells)])
    columns = [name for lag in LAGS for name in (f"lag {lag}", "λ^h" if lag == 1 else f"λ^{lag}")]
    kept = [0, 1, *range(3, len(columns) + 1)]
    yield Table(
        "correlation",
        "Correlation measured at some lags, and what a first-order chain would have",
        ["recording", *(columns[place - 1] for place in kept[1:])],
        [[row[place] for place in kept] for row in rows],
        main=True,
    )
    ten = next(one for one in known if one.subject == "N10")
    (lam,) = correlations(ten.pieces, [1])
    lags = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000]
    curves = [Curve("measured", lags, correlations(ten.pieces, lags), dots=True)]
    for reach in REACHES:
        theta = covering(ten.pieces, reach)
        powers = [(1 - theta.q_low - theta.r_low) ** lag for lag in lags]
        label = "chain fitted at lag 1" if reach == 1 else f"chain that covers lags to {reach}"
        curves.append(Curve(label, lags, powers, reference=reach > 1))
    yield Picture(
        "correlation",
        Figure(
            "Heart rate N10: correlation over time",
            [Panel("", "lag, beats", "correlation", curves, logarithmic="x")],
        ),
        main=True,
    )
    yield Finding(
        f"Heart rate N10 has a correlation of {correlations(ten.pieces, [10])[0]:.3f} over ten beats; the chain "
        f"fitted to neighbouring beats has {lam**10:.3f}."
    )


def _covered(
    job: Job,
    subjects: Sequence[str],
    known: Sequence[Recording],
    epsilons: Sequence[float],
    order: int,
    ticks: int | None,
) -> Iterator[list[Cell]]:
    for subject in subjects:
        bits = next(one for one in known if one.subject == subject).states()[:ticks]
        model = Model.fit(bits, order)
        for epsilon in epsilons:
            for reach in REACHES:
                job.progress(1.0, f"{subject}, ε = {epsilon:g}, covering lags to {reach}")
                theta = covering([bits], reach)
                noise = optimal_noise(theta, epsilon)
                found = attack(model, bits, noise, job.rng(subject, epsilon))
                yield [
                    subject,
                    epsilon,
                    reach,
                    1 - theta.q_low - theta.r_low,
                    1 - noise.rho0 - noise.rho1,
                    worst(model, noise),
                    found.moved,
                    found.right,
                ]


def findings(rows: Sequence[Sequence[Cell]], covered: Sequence[Sequence[Cell]]) -> Iterator[Item]:
    """Findings at ε = 2 on N10."""
    at = [row for row in rows if row[:2] == ["N10", 2.0]]
    first, last = at[0], at[-1]
    yield Finding(
        f"Noise for ε = 2 and the chain fitted at lag 1 to N10 loses at least {last[4]:.3g} if the model that looks "
        f"{last[2]} bits back is true: the guarantee is for the chains in Θ, and such data is not in it. An attacker "
        f"with that model moves the log odds of an instant by up to {last[5]:.3g}, and is right {last[6]:.1%} of the "
        f"time instead of {first[6]:.1%}.",
        kind="loses",
    )
    by = {row[2]: row for row in covered if row[0] == "N10" and row[1] == 2.0}
    near, far = by[10], by[100]
    yield Finding(
        f"Noise that covers the correlation up to lag 10 loses at least {near[5]:.3g}, up to lag 100 {far[5]:.3g}; the "
        f"signal that is left falls from {by[1][4]:.3f} to {near[4]:.3f} and {far[4]:.3f}. The calibrator widens "
        "Θ so, by the misfit it measures (docs/estimation.md)."
    )
