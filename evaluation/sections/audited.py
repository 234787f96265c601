"""The power of an audit: noise within its claim, noise that exceeds it, and noise that is slightly too weak."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hushmq.audit.claim import Claim, claim_of_numbers
from hushmq.audit.measure import Audit, audit
from hushmq.broker.contract.theta_message import binary_theta_of
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Picture, Table
from hushmq.explain.figure import Curve, Figure, Panel
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from hushmq.pufferfish.noise.perturber import Perturber
from hushmq.pufferfish.papers.cgssy import corollary_1

ABOUT = """`hushmq audit` perturbs simulated states with the production perturber and bounds the real loss from below,
at 99% confidence: from how often the most telling outputs around one tick are seen (transcripts, no
assumption on the noise), and from how often single states are flipped (ticks, if draws are independent, which
is tested). Noise comes from the operating system, so these numbers differ a little from run to run. "Too
weak" is an audit of noise that states our ρ and draws less. A refutation names its evidence: the loss computed
from the noise as stated, transcripts, ticks."""

CHAINS = {
    "heart rate N10": (0.0893, 0.1092),
    "symmetric, θ=.2": (0.2, 0.2),
    "alternating, q=.7 r=.6": (0.7, 0.6),
}
EPSILONS = (1.0, 4.0)
CONFIDENCE = 0.99
WEAK = (0.0, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05)
WEAKENED = "symmetric, θ=.2"
STANDS = "within the claim"


@dataclass(frozen=True, slots=True)
class AuditCase:
    """A claim, its description, and the noise that is actually drawn."""

    name: str
    claim: Claim
    drawn: BinaryNoise


def cases() -> list[AuditCase]:
    """Plain randomized response, CGSSY's noise and ours, all claimed against the informed adversary."""
    found = []
    for name, (q, r) in CHAINS.items():
        for epsilon in EPSILONS:
            rho = 1 / (1 + math.exp(epsilon))
            noises = {
                "plain randomized response": BinaryNoise(rho, rho),
                "ours": optimal_noise(BinaryTheta.point(q, r), epsilon),
            }
            if max(q, r) < 0.5:
                noises["CGSSY Corollary 1"] = corollary_1(q, r, epsilon)
            for kind, noise in noises.items():
                found.append(
                    AuditCase(f"{kind}, {name}", claim_of_numbers(q, r, noise, epsilon, "informed"), noise)
                )
    return found


def run(job: Job) -> Iterator[Item]:
    ticks = 200_000 if job.quick else 4_000_000
    listed = [case for case in cases() if not job.quick or case.claim.epsilon == 1.0]
    weak = WEAK[::9] if job.quick else WEAK
    repeats = 10 if job.quick else 200
    steps = len(listed) + len(weak) + 1
    rows: list[list[Cell]] = []
    for number, case in enumerate(listed):
        job.progress(number / steps, case.name)
        rows.append(_row(case, _audited(case, ticks)))
    columns = (
        *("noise", "ε claimed", "real loss", "transcripts: at least", "of which is seen"),
        *("ticks: at least", "of which is seen", "verdict"),
    )
    note = "The loss computed from the noise as stated may be above the claim by less than the digits shown."
    yield Table("verdicts", f"Audits of {ticks:,} ticks", columns, rows, note, main=True)
    weaker: list[list[Cell]] = []
    for number, share in enumerate(weak):
        job.progress((len(listed) + number) / steps, f"{share:.2%} too weak")
        case = weakened(share)
        weaker.append([share, *_row(case, _audited(case, 2 * ticks))[2:]])
    yield Table(
        "power",
        f"Audits of {2 * ticks:,} ticks, ρ below what is stated",
        ("ρ too small by", *columns[2:]),
        weaker,
    )
    yield _power(weaker)
    job.progress((steps - 1) / steps, "false alarms")
    case = weakened(0.0)
    alarms = sum(
        bool(audit(case.claim, Perturber(case.drawn).perturb, ticks=20_000, confidence=0.9).objections())
        for _ in range(repeats)
    )
    yield from _findings(rows, weaker, alarms, repeats)


def weakened(share: float) -> AuditCase:
    """Our noise at ε = 1, with this share less noise drawn than stated."""
    q, r = CHAINS[WEAKENED]
    stated = optimal_noise(BinaryTheta.point(q, r), 1.0)
    drawn = BinaryNoise(stated.rho0 * (1 - share), stated.rho1 * (1 - share))
    return AuditCase(f"{share:.2%} too weak", claim_of_numbers(q, r, stated, 1.0, "informed"), drawn)


def _audited(case: AuditCase, ticks: int) -> Audit:
    return audit(case.claim, Perturber(case.drawn).perturb, ticks=ticks, confidence=CONFIDENCE)


def _row(case: AuditCase, found: Audit) -> list[Cell]:
    theta = binary_theta_of(case.claim.setting.theta)
    real = loss(theta, tau0=case.drawn.tau0, tau1=case.drawn.tau1)
    seen, flips = max(0.0, found.best_transcripts("informed").bound), found.by_ticks["informed"]
    verdict = f"refuted: {', '.join(found.objections())}" if found.objections() else STANDS
    return [case.name, case.claim.epsilon, real, seen, seen / real, flips, flips / real, verdict]


def _power(rows: list[list[Cell]]) -> Picture:
    def column(number: int) -> list[float]:
        return [float(str(row[number])) for row in rows]

    x = [100 * share for share in column(0)]
    curves = [
        Curve("real loss", x, column(1)),
        Curve("ticks: at least", x, column(4), dots=True),
        Curve("transcripts: at least", x, column(2), dots=True),
        Curve("claimed", [x[0], x[-1]], [1.0, 1.0], reference=True),
    ]
    title = "How weak noise must be before an audit says so: θ = .2, ε = 1, 99% confidence"
    return Picture(
        "power", Figure(title, [Panel("", "ρ below what is stated, %", "loss, nats", curves)]), main=True
    )


def _findings(rows: list[list[Cell]], weaker: list[list[Cell]], alarms: int, repeats: int) -> Iterator[Item]:
    def stand(kind: str) -> int:
        return sum(str(row[0]).startswith(kind) and row[-1] == STANDS for row in rows)

    def count(kind: str) -> int:
        return sum(str(row[0]).startswith(kind) for row in rows)

    yield Finding(
        f"Plain randomized response is refuted in {count('plain') - stand('plain')} of {count('plain')} "
        f"audits, CGSSY's noise in {count('CGSSY') - stand('CGSSY')} of {count('CGSSY')}; ours is within the "
        f"claim in {stand('ours')} of {count('ours')}.",
        kind="leads",
    )
    caught = [row for row in weaker if row[-1] != STANDS]
    if caught:
        yield Finding(
            f"Noise {float(str(caught[0][0])):.2%} too weak, a real loss of {float(str(caught[0][1])):.3f} "
            "where 1 is claimed, is the least that these audits refute."
        )
    yield Finding(
        f"Of {repeats} audits at 90% confidence of noise that loses exactly what is claimed, {alarms} cried "
        f"wolf; the statement allows {repeats // 10}."
    )
    least = min(float(str(row[4])) for row in rows if str(row[0]).startswith("ours"))
    yield Finding(
        f"Transcripts alone show as little as {least:.0%} of a loss: the outputs that tell most are too rare "
        "to be seen. Noise a little too weak is only found by assuming that draws are independent, and "
        "testing that.",
        kind="loses",
    )
