"""Strong attackers on recordings: how far they move the odds of an instant, by what the noise was made for."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.attackers.bands import guesses
from hushmq.evaluation.attackers.block_smoother import Floats
from hushmq.evaluation.attackers.raw_regimes import Bits, fitted_regimes, moved_odds
from hushmq.evaluation.recordings import Recording, sleepers
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Table
from hushmq.evaluation.sections.recorded_misfit import STRETCH, covering, sanitized
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_noise import best_stride
from hushmq.pufferfish.regimes.regime_tilts import loss

ABOUT = """Heart rates N10, N5 and N9, sanitized for ε in three ways: for the chain of neighbouring beats, for
a chain that covers the correlation up to lag 100 (both against the prior adversary, every beat published),
and for the chain with two hidden regimes fitted to the recording, with the stride that tells most. "Loss" is
certified, or exact, for the chain with two regimes. Then the recording itself is attacked. Forward–backward
runs with the chain of two or of three regimes that was fitted to the RAW recording, which no reader has;
three are more than the noise was made for. The long-reach attacker assumes no chain: it is given the states
of every second stretch of 1,000 beats, learns there how published samples up to 1,000 beats away tell of a
state, and guesses the others. "Moved" is the largest change of the log-odds of any beat, published or not; a
promise of ε is kept where it is at most ε. Of the long-reach attacker, whose own odds may be wrong, it is how
much likelier its most certain guesses really are for one state than for the other; since neighbouring beats
are alike, that is far from 0 by chance, so it stands beside what the same attacker reaches with outputs that
are coins."""

SUBJECTS = ("N10", "N5", "N9")
EPSILONS = (1.0, 2.0, 4.0)
COVERED = 100
REACH = 1000
TAILS = (0.05, 0.1, 0.25, 0.5)
FEWEST = 50
"""Claims in a tail."""
LAG_ONE, COVERING, REGIMES = "lag 1", f"covers lag {COVERED}", "two regimes"


@dataclass(frozen=True, slots=True)
class Protection:
    """The noise on every `stride`-th beat, and what it was made for."""

    name: str
    noise: BinaryNoise
    stride: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """The largest change of log-odds at any attacked tick, and the share of them guessed right."""

    moved: float
    right: float


def protections(bits: Bits, regimes: RegimeChain, epsilon: float) -> list[Protection]:
    """The three ways to make noise for ε, all against the prior adversary."""
    thinned = best_stride(regimes, epsilon)
    return [
        *(
            Protection(name, covering([bits], reach).optimal_noise(epsilon, "prior"), 1)
            for name, reach in ((LAG_ONE, 1), (COVERING, COVERED))
        ),
        Protection(REGIMES, thinned.noise, thinned.stride),
    ]


def published_ticks(subject: str, ticks: int, stride: int) -> NDArray[np.bool_]:
    """One of each stride, by the device's name."""
    return np.asarray(np.arange(ticks) % stride == zlib.crc32(subject.encode()) % stride)


def forward_backward(
    chain: RegimeChain, bits: Bits, seen: Bits, published: NDArray[np.bool_], noise: BinaryNoise
) -> Outcome:
    """The attack with a chain, on all ticks."""
    moved = moved_odds(chain, seen, published, noise)
    guessed = moved + math.log(chain.ones / (1 - chain.ones)) > 0.0
    return Outcome(float(np.abs(moved).max()), float((guessed == (bits == 1)).mean()))


def long_reach(bits: Bits, seen: Bits, published: NDArray[np.bool_], stride: int) -> Outcome:
    """The attack without a chain, on the published ticks of the stretches that are not revealed."""
    ticks = np.flatnonzero(published)
    revealed = ticks // STRETCH % 2 == 0
    states = bits[ticks]
    ones = guesses(states, seen[ticks], max(1, REACH // stride), revealed)
    hidden = states[~revealed] == 1
    return Outcome(shown(ones, hidden), float(((ones > 0.5) == hidden).mean()))


def shown(claims: Floats, ones: NDArray[np.bool_]) -> float:
    """How far claims really move the odds: the largest |log P(claim in S | 1) / P(claim in S | 0)|, S a tail of them.

    A learned attacker's own odds say little, for it may be wrong. S is chosen by the outputs alone, so noise that keeps
    ε keeps this within ε, but for the chance of the recording.
    """
    order = np.argsort(claims, kind="stable")
    found = 0.0
    for share in TAILS:
        size = int(share * len(order))
        if size < FEWEST:
            continue
        for tail in (order[:size], order[-size:]):
            inside = ones[tail].sum() + 0.5, size - ones[tail].sum() + 0.5
            whole = ones.sum() + 1.0, len(ones) - ones.sum() + 1.0
            found = max(found, abs(math.log(inside[0] / whole[0] / (inside[1] / whole[1]))))
    return found


def attacked(job: Job, recording: Recording, epsilons: Sequence[float]) -> Iterator[list[Cell]]:
    """A row for each ε and way to make noise."""
    ticks, rounds = (4000, 10) if job.quick else (None, 60)
    bits = recording.states()[:ticks]
    two, three = (fitted_regimes([bits], regimes=regimes, rounds=rounds) for regimes in (2, 3))
    for epsilon in epsilons:
        for one in protections(bits, two, epsilon):
            job.progress(0.5, f"{recording.subject}, ε = {epsilon:g}, {one.name}")
            published = published_ticks(recording.subject, len(bits), one.stride)
            seen = sanitized(bits, one.noise, job.rng(recording.subject, epsilon, one.name))
            found = [
                *(forward_backward(chain, bits, seen, published, one.noise) for chain in (two, three)),
                long_reach(bits, seen, published, one.stride),
            ]
            coins = job.rng("coins", recording.subject, epsilon, one.name).integers(0, 2, len(bits))
            chance = long_reach(bits, coins, published, one.stride).moved
            yield [
                *(recording.subject, epsilon, one.name, one.stride, one.noise.signal),
                loss(two, one.noise.tau0, one.noise.tau1, one.stride),
                *(cell for each in found for cell in (each.moved, each.right)),
                chance,
                float(max(bits.mean(), 1 - bits.mean())),
            ]


COLUMNS = (
    *("recording", "ε", "noise for", "stride", "signal 1−ρ0−ρ1", "loss, two regimes"),
    *("two regimes: moved", "two regimes: right", "three regimes: moved", "three regimes: right"),
    *("long reach: moved", "long reach: right"),
    *("long reach with coins: moved", "always the commoner state"),
)


def run(job: Job) -> Iterator[Item]:
    known = {one.subject: one for one in sleepers(job)}
    rows: list[list[Cell]] = []
    for subject in SUBJECTS[:1] if job.quick else SUBJECTS:
        rows += attacked(job, known[subject], (2.0,) if job.quick else EPSILONS)
    yield Table("attackers", "How far attackers move the log-odds of a beat", COLUMNS, rows, main=True)
    yield from findings(rows)


def findings(rows: Sequence[Sequence[Cell]]) -> Iterator[Item]:
    """In how many rows an attacker passed ε, by what the noise was made for."""
    for name in (LAG_ONE, COVERING, REGIMES):
        kept = [Reached.of(row) for row in rows if row[2] == name]
        passed = [row for row in kept if row.moved > row.epsilon]
        farther = [row for row in kept if row.learned > max(row.epsilon, row.by_chance)]
        worst = max(kept, key=lambda row: row.moved / row.epsilon)
        lost = max(kept, key=lambda row: row.loss / row.epsilon)
        yield Finding(
            f"Noise for {name}: forward–backward passes ε in {len(passed)} of {len(kept)} rows, at most "
            f"{worst.moved:.3g} at ε = {worst.epsilon:g} ({worst.subject}); the long-reach attacker passes both ε "
            f"and what coins give in {len(farther)}. If the two regimes are true, the noise loses up to "
            f"{lost.loss:.3g} at ε = {lost.epsilon:g} ({lost.subject}).",
            kind="loses" if passed or farther else "finding",
        )


@dataclass(frozen=True, slots=True)
class Reached:
    """What a row says, in numbers."""

    subject: str
    epsilon: float
    loss: float
    moved: float
    learned: float
    by_chance: float

    @classmethod
    def of(cls, row: Sequence[Cell]) -> Reached:
        numbers = [float(cell) for cell in row[5:] if isinstance(cell, int | float)]
        moved = max(numbers[1], numbers[3])
        return cls(str(row[0]), float(str(row[1])), numbers[0], moved, numbers[5], numbers[7])
