"""Peer packages: their speed of perturbation, and the loss of their noise on correlated data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

from hushmq.audit.claim import Claim, claim_of_numbers
from hushmq.audit.measure import audit
from hushmq.evaluation.benchmarks.peer_speed import (
    BATCH,
    PEERS,
    SYSTEM,
    Absent,
    Perturb,
    in_batches,
    plain,
    rate,
)
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.section_report import Cell, Finding, Item, Table
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise
from hushmq.pufferfish.noise.perturber import Perturber

ABOUT = """Randomized response of pure-ldp, multi-freq-ldpy, diffprivlib and OpenDP beside ours, in one run. Speed: bits
perturbed per second of processor time, ours in batches of 100 as a device has them, the others fed as they are
best fed. Promise: each is asked for ε = 1 and flips a bit with probability 1/(1+e), which is right for samples
that are independent; none of them claims more. The table has the exact loss of that noise on the chain of a
sleeper's heart rate (N10), for the adversary who knows the chain and for the one who also knows other states,
and what an audit of the package's own outputs shows at 99% confidence. The noise of an audit is the packages'
own, so its numbers differ from run to run, as the speeds do."""

CHAIN = (0.0893, 0.1092)
EPSILON = 1.0
CONFIDENCE = 0.99
SEEDED = "NumPy, vectorised"
"""Not a peer: shows the cost of not drawing noise from a seeded generator."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A package's perturber, and its claim."""

    name: str
    release: str
    randomness: str
    perturb: Perturb
    samples: int
    claim: Claim
    ticks: int


def run(job: Job) -> Iterator[Item]:
    ticks = 20_000 if job.quick else 2_000_000
    entries, missing = contestants(ticks)
    rows: list[list[Cell]] = []
    speeds: dict[str, float] = {}
    for number, entry in enumerate(entries):
        job.progress(number / len(entries), entry.name)
        speeds[entry.name] = rate(entry.perturb, entry.samples // (10 if job.quick else 1))
        found = audit(entry.claim, entry.perturb, ticks=entry.ticks, confidence=CONFIDENCE)
        rows.append(
            [
                *(
                    entry.name,
                    entry.release,
                    entry.randomness,
                    speeds[entry.name],
                    speeds["hushmq"] / speeds[entry.name],
                ),
                *(entry.claim.epsilon, entry.claim.stated("prior"), entry.claim.stated("informed")),
                *(found.by_ticks["informed"], "refuted" if found.objections() else "stands"),
            ]
        )
    rows += [[name, reason, *[None] * 8] for name, reason in missing]
    columns = (
        *("mechanism", "version", "noise from", "bits/s", "ours, times as fast"),
        *("ε claimed", "real loss, prior", "real loss, informed", "audit: at least", "claim on this chain"),
    )
    yield Table("peers", "Randomized response on a correlated stream, N10", columns, rows, main=True)
    yield from _findings(rows, missing)


def contestants(ticks: int) -> tuple[list[Contestant], list[tuple[str, str]]]:
    """Our perturber and the peers that can be imported, slow ones with fewer ticks; and the others with the reason."""
    best = optimal_noise(BinaryTheta.point(*CHAIN), EPSILON)
    entries = [
        Contestant(
            name="hushmq",
            release=version("hushmq"),
            randomness=SYSTEM,
            perturb=in_batches(Perturber(best).perturb, BATCH),
            samples=200_000,
            claim=claim_of_numbers(*CHAIN, best, EPSILON, "informed"),
            ticks=ticks,
        )
    ]
    missing = []
    for peer in PEERS:
        try:
            perturb = peer.perturber(EPSILON)
        except Absent as absent:
            missing.append((peer.name, str(absent)))
            continue
        entries.append(
            Contestant(
                name=peer.name,
                release=version(peer.package),
                randomness=peer.randomness,
                perturb=perturb,
                samples=peer.samples,
                claim=claim_of_numbers(*CHAIN, plain(EPSILON), EPSILON, "informed"),
                ticks=max(10_000, ticks * min(peer.samples, 50_000) // 50_000),
            )
        )
    return entries, missing


def _findings(rows: list[list[Cell]], missing: list[tuple[str, str]]) -> Iterator[Item]:
    measured = [row for row in rows if row[3] is not None]
    peers = [row for row in measured[1:] if row[0] != SEEDED]
    if peers:
        slow, fast = (pick(peers, key=lambda row: float(str(row[3]))) for pick in (min, max))
        yield Finding(
            f"Ours perturbs {slow[4]:,.0f} times as many bits per second as {slow[0]} and {fast[4]:,.2g} "
            f"times as many as the fastest peer, {fast[0]} (noise from: {fast[2]})."
        )
    wrong = [row for row in measured[1:] if row[9] == "refuted"]
    yield Finding(
        f"Asked for ε = {EPSILON:g}, the noise of all of them loses {plain_loss('prior'):.2f} on this chain, "
        f"and {plain_loss('informed'):.2f} to who knows other states; audits of their own outputs refute the "
        f"claim for {len(wrong)} of {len(measured) - 1}. None of them promises more than they keep: their ε "
        f"is for independent samples, and a stream is not. Ours: {measured[0][7]:.4g}.",
        kind="leads",
    )
    numpy = next(row for row in measured if row[0] == SEEDED)
    yield Finding(
        f"NumPy with a seeded generator is {1 / float(str(numpy[4])):,.0f} times as fast as ours. Noise for "
        "publication needs the operating system's randomness, and a device publishes a few samples a "
        "second.",
        kind="loses",
    )
    for name, reason in missing:
        yield Finding(f"{name}: {reason}.", kind="skipped")


def plain_loss(adversary: Adversary) -> float:
    """The loss on the chain of noise that is calibrated for independent samples."""
    return claim_of_numbers(*CHAIN, plain(EPSILON), EPSILON, adversary).stated(adversary)
