"""Sampling: what the outputs of the real perturber show about its loss, with an error that is stated.

Three things are looked at, and together they wrongly refute a true claim with probability at most 1 − confidence:

- transcripts: how often the most telling outputs around one tick come up given either state, when the chain is as the
  adversary believes. Nothing is assumed about the noise. The two frequencies' bounds (Clopper and Pearson) give a
  lower bound on the loss; it shows less than all of it, since the most telling outputs of all are never seen.
- ticks: how often single states are flipped. Where draws are independent, the tilts from these frequencies' bounds
  give the loss of an endless stream by the exact formula, so that noise a little too weak is found.
- independence: whether flips up to 64 ticks apart agree more or less often than chance has it.

`bits` and `states` know how streams of two and of more states are looked at. docs/theory.md, Theorem 9.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import SystemRandom
from statistics import NormalDist

from hushmq.audit.audit_bits import Bits
from hushmq.audit.audit_states import States
from hushmq.audit.claim import Claim
from hushmq.pufferfish.binary.stream_loss import Adversary
from hushmq.pufferfish.inference.clopper_pearson import highest, lowest
from hushmq.pufferfish.witness.bit_witness import Witness
from hushmq.pufferfish.witness.state_witness import StateWitness

Perturb = Callable[[bytes], bytes]
Progress = Callable[[float], None]

CHUNK = 1 << 19
"""Ticks perturbed at a time."""


@dataclass(frozen=True, slots=True)
class Transcripts:
    """How often a witness was seen in `draws` streams given its state, and in as many given the other."""

    witness: Witness | StateWitness
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
        able = [seen for seen in self.transcripts if seen.adversary in {adversary, "prior"}]
        return max(able, key=lambda seen: seen.bound)

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
    look = Bits(claim) if claim.setting.noise.k == 2 else States(claim)
    # Two bounds for each witness, those of the flips, and the test of independence.
    share = (1.0 - confidence) / (2 * look.witnesses + look.bounds + 1)
    feed = _Feed(perturb, ticks, progress)
    for states, outputs in feed.random(ticks // 2, look.states):
        look.add(states, outputs)
    each = (ticks - ticks // 2) // look.witnesses
    transcripts = []
    deviations = NormalDist().inv_cdf(1.0 - share)
    for adversary, witness in look.telling(ticks=each, deviations=deviations):
        draws = max(1, each // (2 * len(witness.outputs)))
        right, wrong = (feed.seen(witness, given, draws) for given in (witness.state, witness.other))
        least, most = lowest(right, draws, share), highest(wrong, draws, share)
        bound = math.log(least / most) if least > 0.0 else -math.inf
        transcripts.append(Transcripts(witness, adversary, draws, right, wrong, bound))
    return Audit(
        claim=claim,
        ticks=feed.done,
        confidence=confidence,
        transcripts=tuple(transcripts),
        by_ticks=look.by_ticks(share),
        independence=look.dependence.chance(),
        share=share,
    )


class _Feed:
    """Feeds the perturber and counts what comes out."""

    def __init__(self, perturb: Perturb, ticks: int, progress: Progress) -> None:
        self._perturb, self._ticks, self._progress = perturb, ticks, progress
        self._random = SystemRandom()
        self.done = 0

    def random(self, ticks: int, states: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Random states, made of random bytes by this table, and what becomes of them."""
        for size in _chunks(ticks, CHUNK):
            drawn = os.urandom(size).translate(states)
            yield drawn, self._outputs(drawn)

    def seen(self, witness: Witness | StateWitness, state: int, draws: int) -> int:
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
