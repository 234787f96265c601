"""Sampling: what the outputs of the real perturber show about its loss, with an error that is stated.

Three things are looked at, and together they wrongly refute a true claim with probability at most 1 − confidence:

- transcripts: how often the most telling outputs around one tick come up given either state, when the chain is as the
  adversary believes. Nothing is assumed about the noise. The two frequencies' bounds (Clopper and Pearson) give a
  lower bound on the loss; it shows less than all of it, since the most telling outputs of all are never seen.
- ticks: how often single states are flipped. Where draws are independent, the tilts from these frequencies' bounds
  give the loss of an endless stream by the exact formula, so that noise a little too weak is found.
- independence: whether flips up to 64 ticks apart agree more or less often than chance has it.

docs/theory.md, Theorem 9.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import SystemRandom
from statistics import NormalDist

from hushmq.audit.claim import Claim
from hushmq.progress import Progress
from pufferfish.binary import Adversary, Box, loss
from pufferfish.frequency import highest, lowest
from pufferfish.witness import Witness, best

Perturb = Callable[[bytes], bytes]

ADVERSARIES: tuple[Adversary, Adversary] = ("prior", "informed")
LAGS = 64
CHUNK = 1 << 19
"""Ticks perturbed at a time."""

_BITS = bytes(value & 1 for value in range(256))
_DIGITS = b"01" + bytes(254)


@dataclass(frozen=True, slots=True)
class Transcripts:
    """How often a witness was seen in `draws` streams given its state, and in as many given the other."""

    witness: Witness
    adversary: Adversary
    draws: int
    right: int
    wrong: int
    bound: float


@dataclass(frozen=True, slots=True)
class Audit:
    """What was seen of a claim. Bounds are lower bounds on the loss, by adversary."""

    claim: Claim
    ticks: int
    confidence: float
    transcripts: tuple[Transcripts, ...]
    by_ticks: dict[Adversary, float]
    independence: float
    """How probable so much dependence is by chance, over all lags."""
    share: float
    """The part of 1 − confidence that each single statement may be wrong with."""

    def best_transcripts(self, adversary: Adversary) -> Transcripts:
        """Those with the highest bound, of all that this adversary could have made use of."""
        able = ADVERSARIES[: ADVERSARIES.index(adversary) + 1]
        return max((seen for seen in self.transcripts if seen.adversary in able), key=lambda seen: seen.bound)

    def objections(self) -> dict[str, str]:
        """Why the claim does not hold, if it does not: what each kind of evidence says against it."""
        claim, adversary = self.claim, self.claim.adversary
        stated, seen, flips = (
            claim.stated(adversary),
            self.best_transcripts(adversary).bound,
            self.by_ticks[adversary],
        )
        found = {}
        if stated > claim.epsilon:
            found["stated"] = f"the noise as stated loses {stated:.6g}"
        if seen > claim.epsilon:
            found["transcripts"] = f"transcripts show a loss of at least {seen:.4g}"
        if flips > claim.epsilon:
            found["ticks"] = f"the flips show a loss of at least {flips:.6g}"
        if self.independence < self.share:
            found["independence"] = (
                f"draws at different ticks depend on each other (p = {self.independence:.2g})"
            )
        return found


def audit(
    claim: Claim,
    perturb: Perturb,
    *,
    ticks: int,
    confidence: float,
    progress: Progress = lambda share: None,
) -> Audit:
    """Perturb so many ticks and see what they show; half of them for the flips, half for transcripts."""
    corners = claim.theta.worst()
    plans = [(q, r, adversary, state) for q, r in corners for adversary in ADVERSARIES for state in (0, 1)]
    # Two bounds for each witness, one for each flip probability, and the test of independence.
    share = (1.0 - confidence) / (2 * len(plans) + 3)
    deviations = NormalDist().inv_cdf(1.0 - share)
    counter = _Counter(perturb, ticks, progress)
    flips = counter.flips(ticks // 2)
    each = (ticks - ticks // 2) // len(plans)
    transcripts = []
    for q, r, adversary, state in plans:
        witness = best(q, r, claim.noise, state, adversary, ticks=each, deviations=deviations)
        draws = max(1, each // (2 * len(witness.outputs)))
        right, wrong = (counter.seen(witness, given, draws) for given in (state, 1 - state))
        bound = _log_ratio(lowest(right, draws, share), highest(wrong, draws, share))
        transcripts.append(Transcripts(witness, adversary, draws, right, wrong, bound))
    return Audit(
        claim=claim,
        ticks=counter.done,
        confidence=confidence,
        transcripts=tuple(transcripts),
        by_ticks={adversary: _by_ticks(claim, flips, adversary, share) for adversary in ADVERSARIES},
        independence=flips.independence(),
        share=share,
    )


def _by_ticks(claim: Claim, flips: FlipCounts, adversary: Adversary, share: float) -> float:
    """The loss of the smallest tilts that the flips leave possible, and of the windows beside the stream."""
    rho0, rho1 = flips.most(0, share), flips.most(1, share)
    tau0 = max(0.0, _log_ratio(1.0 - rho0, rho1)) + claim.windows
    tau1 = max(0.0, _log_ratio(1.0 - rho1, rho0)) + claim.windows
    return max(
        loss(Box.point(q, r), tau0=tau0, tau1=tau1, adversary=adversary) for q, r in claim.theta.worst()
    )


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0.0 else -math.inf


class FlipCounts:
    """Flips of random states, counted by state and by pairs of ticks."""

    def __init__(self) -> None:
        self._states = [0, 0]
        self._flipped = [0, 0]
        self._pairs: dict[tuple[int, int, int], list[int]] = {}

    def add(self, states: bytes, outputs: bytes) -> None:
        """Count one stretch of ticks, as bits of large numbers."""
        ticks = len(states)
        whole = (1 << ticks) - 1
        x = int(states.translate(_DIGITS), 2)
        flipped = x ^ int(outputs.translate(_DIGITS), 2)
        masks = (whole ^ x, x)
        for state, mask in enumerate(masks):
            self._states[state] += mask.bit_count()
            self._flipped[state] += (flipped & mask).bit_count()
        for lag in range(1, min(LAGS, ticks - 1) + 1):
            later = flipped >> lag
            for first, mask in enumerate(masks):
                for second, other in enumerate(masks):
                    both = other & (mask >> lag)
                    here, there = flipped & both, later & both
                    counts = self._pairs.setdefault((lag, first, second), [0, 0, 0, 0])
                    for place, number in enumerate((both, here, there, here & there)):
                        counts[place] += number.bit_count()

    def most(self, state: int, error: float) -> float:
        """What the probability of a flip in that state is not above, but with that error."""
        return highest(self._flipped[state], self._states[state], error)

    def independence(self) -> float:
        """The p-value of the most correlated pair of ticks and states, for having looked at all of them."""
        worst = 0.0
        for pairs, here, there, both in self._pairs.values():
            spread = here * (pairs - here) * there * (pairs - there)
            if spread > 0:
                worst = max(worst, abs(pairs * both - here * there) * math.sqrt(pairs / spread))
        return min(1.0, len(self._pairs) * math.erfc(worst / math.sqrt(2.0)))


class _Counter:
    """Feeds the perturber and counts what comes out."""

    def __init__(self, perturb: Perturb, ticks: int, progress: Progress) -> None:
        self._perturb, self._ticks, self._progress = perturb, ticks, progress
        self._random = SystemRandom()
        self.done = 0

    def flips(self, ticks: int) -> FlipCounts:
        """What happens to fair random states."""
        found = FlipCounts()
        for size in _chunks(ticks, CHUNK):
            states = os.urandom(size).translate(_BITS)
            found.add(states, self._outputs(states))
        return found

    def seen(self, witness: Witness, state: int, draws: int) -> int:
        """How many of so many streams with that state at the attacked tick have the witness's outputs."""
        wanted = witness.outputs
        width = len(wanted)
        paths, cumulated = witness.paths(state)
        found = 0
        for size in _chunks(draws, CHUNK // width):
            states = b"".join(self._random.choices(paths, cum_weights=cumulated, k=size))
            outputs = self._outputs(states)
            found += sum(outputs[at : at + width] == wanted for at in range(0, len(outputs), width))
        return found

    def _outputs(self, states: bytes) -> bytes:
        outputs = self._perturb(states)
        if len(outputs) != len(states):
            raise ValueError(
                f"{len(states)} states became {len(outputs)} outputs; the perturber must keep their number"
            )
        self.done += len(states)
        self._progress(min(1.0, self.done / self._ticks))
        return outputs


def _chunks(total: int, size: int) -> Iterator[int]:
    """Sizes of at most `size` that add up to the total."""
    while total > 0:
        yield min(total, size)
        total -= size
