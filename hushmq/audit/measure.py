"""The measurement of an audit: lower confidence bounds on the loss from samples of the real perturber.

Three kinds of evidence together refute a true claim with probability at most 1 − confidence (docs/theory.md, Theorem
9):

- transcripts: the frequencies of a witness's outputs given either state, for a chain of Θ. Nothing is assumed about the
  noise. Clopper and Pearson's bounds of the two frequencies give a lower bound on the loss; it is below the loss,
  because longer and more informative witnesses are too rare to be counted.
- ticks: the frequencies of flips. If ticks are perturbed independently, the tilts from the bounds of these frequencies
  give the loss of an endless stream by the exact formula, so that slightly too weak noise is detected.
- independence: whether flips at lags of up to 64 ticks are correlated.

`audit_bits` has the evidence for two states, `audit_states` for more.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import SystemRandom
from statistics import NormalDist

from hushmq.audit.audit_bits import BinaryAuditEvidence
from hushmq.audit.audit_states import CategoricalAuditEvidence
from hushmq.audit.claim import Claim
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, CategoricalNoiseMessage, NoiseMessage
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound, upper_confidence_bound
from hushmq.pufferfish.witness.bit_witness import Witness
from hushmq.pufferfish.witness.state_witness import StateWitness

Perturb = Callable[[bytes], bytes]
Progress = Callable[[float], None]

EVIDENCE: dict[type[NoiseMessage], type[BinaryAuditEvidence | CategoricalAuditEvidence]] = {
    BinaryNoiseMessage: BinaryAuditEvidence,
    CategoricalNoiseMessage: CategoricalAuditEvidence,
}
"""What is measured for each form of noise."""

CHUNK = 1 << 19
"""The number of ticks perturbed in one call."""


@dataclass(frozen=True, slots=True)
class Transcripts:
    """The counts of a witness in `draws` streams given its state, and in as many given the other."""

    witness: Witness | StateWitness
    adversary: Adversary
    draws: int
    right: int
    wrong: int
    bound: float


@dataclass(frozen=True, slots=True)
class Audit:
    """The evidence on a claim; bounds are lower bounds on the loss, by adversary."""

    claim: Claim
    noise: dict[str, tuple[float, str]]
    """The noise as stated: names, values and their meaning."""
    ticks: int
    confidence: float
    transcripts: tuple[Transcripts, ...]
    by_ticks: dict[Adversary, float]
    independence: float
    """The p-value of the test of independence."""
    share: float
    """The error probability of each single statement, by Bonferroni."""

    def best_transcripts(self, adversary: Adversary) -> Transcripts:
        """The transcripts with the highest bound among those available to this adversary."""
        able = [seen for seen in self.transcripts if seen.adversary in {adversary, "prior"}]
        return max(able, key=lambda seen: seen.bound)

    def objections(self) -> dict[str, str]:
        """The reasons why the claim is false, by kind of evidence; empty if it is not refuted."""
        claim, adversary = self.claim, self.claim.adversary
        # Whoever knows the chain is one of the undecided adversaries: a lower bound for the former is one for these.
        witnessed: Adversary = "prior" if adversary == "undecided" else adversary
        stated, seen, flips = (
            claim.stated(adversary),
            self.best_transcripts(witnessed).bound,
            self.by_ticks[witnessed],
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
    """Perturbs `ticks` ticks, half of them for the flips and half for transcripts, and returns the evidence."""
    evidence = EVIDENCE[type(claim.setting.noise)](claim)
    # Two bounds for each witness, the bounds of the flips, and the test of independence.
    share = (1.0 - confidence) / (2 * evidence.witnesses + evidence.bounds + 1)
    feed = _Sampler(perturb, ticks, progress)
    for states, outputs in feed.random(ticks // 2, evidence.states):
        evidence.add(states, outputs)
    each = (ticks - ticks // 2) // evidence.witnesses
    transcripts = []
    deviations = NormalDist().inv_cdf(1.0 - share)
    for adversary, witness in evidence.chosen_witnesses(ticks=each, deviations=deviations):
        draws = max(1, each // (2 * len(witness.outputs)))
        right, wrong = (feed.seen(witness, given, draws) for given in (witness.state, witness.other))
        least, most = lower_confidence_bound(right, draws, share), upper_confidence_bound(wrong, draws, share)
        bound = math.log(least / most) if least > 0.0 else -math.inf
        transcripts.append(Transcripts(witness, adversary, draws, right, wrong, bound))
    return Audit(
        claim=claim,
        noise=evidence.stated_noise,
        ticks=feed.done,
        confidence=confidence,
        transcripts=tuple(transcripts),
        by_ticks=evidence.by_ticks(share),
        independence=evidence.dependence.p_value(),
        share=share,
    )


class _Sampler:
    """Draws states, perturbs them and counts outputs."""

    def __init__(self, perturb: Perturb, ticks: int, progress: Progress) -> None:
        self._perturb, self._ticks, self._progress = perturb, ticks, progress
        self._random = SystemRandom()
        self.done = 0

    def random(self, ticks: int, states: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Independent random states, from random bytes by a translation table, and their outputs."""
        for size in _chunks(ticks, CHUNK):
            drawn = os.urandom(size).translate(states)
            yield drawn, self._outputs(drawn)

    def seen(self, witness: Witness | StateWitness, state: int, draws: int) -> int:
        """How many of `draws` streams with `state` at the attacked tick have the witness's outputs."""
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
