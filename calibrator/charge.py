"""The public account: what an entry costs, what the whole history costs, and what the next window may spend.

Theorem (docs/theory.md, amplification). A window is counted from sanitized states. If all that is published
about one sanitized state has tilt w, then what is published about the true state has tilt

    amplified(ρ, w) = max over directions of log( ((1−ρ0)·e^w + ρ0) / (ρ1·e^w + 1−ρ1) ).

amplified is not subadditive: two things counted from the SAME sanitized states share their noise. So the ledger
keeps w itself; the w of one tick are added first and amplified once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from pufferfish.amplification import amplified, release_tilt
from pufferfish.timeline import Entry, Price, price
from sqlalchemy import Connection, select

from broker.messages import StreamPolicy
from calibrator.store import extent, ledger, setting
from pufferfish.binary import Box, Noise, limits

T = TypeVar("T")
NANO = 1_000_000_000
LARGEST_TILT = 8.0
"""Where the stream alone is within the public budget no noise is owed; a window still gets a little."""


@dataclass(frozen=True, slots=True)
class Debit:
    """One entry of the public account: `tilt` nano-nats on the sanitized states of first … last."""

    first: int
    last: int
    tilt: int
    noise: Noise


@dataclass(frozen=True, slots=True)
class Spending:
    """What closing one window spends, in nano-nats on the sanitized states."""

    release: int
    learning: int

    @property
    def tilt(self) -> int:
        return self.release + self.learning


def public_debits(db: Connection, stream: str) -> list[Debit]:
    """The stream's public account so far."""
    rows = db.execute(select(ledger).where(ledger.c.stream == stream, ledger.c.audience == "public"))
    return [Debit(row.first, row.last, row.tilt, Noise(row.rho0, row.rho1)) for row in rows]


def public_timeline(debits: Iterable[Debit]) -> list[Entry]:
    """τ(t) for whoever reads only releases: add the tilts of one tick, then amplify once through its noise."""
    return [
        Entry(first, last, tau, tau)
        for first, last, active in _segments([(debit.first, debit.last, debit) for debit in debits])
        for tau in [_joint_tilt(active)]
    ]


def _joint_tilt(debits: Sequence[Debit]) -> float:
    w = sum(debit.tilt for debit in debits) / NANO
    return max(amplified(noise, w) for noise in {debit.noise for debit in debits})


def operator_timeline(db: Connection, stream: str) -> list[Entry]:
    """τ(t) for whoever reads the sanitized stream: at each tick the least noise that any device used there."""
    rows = db.execute(
        select(extent.c.first, extent.c.last, setting.c.rho0, setting.c.rho1).where(
            extent.c.stream == stream, setting.c.stream == stream, setting.c.version == extent.c.noise
        )
    )
    spans = [(row.first, row.last, Noise(row.rho0, row.rho1)) for row in rows]
    return [
        Entry(first, last, max(noise.tau0 for noise in active), max(noise.tau1 for noise in active))
        for first, last, active in _segments(spans)
    ]


def price_public(debits: Iterable[Debit], theta: Box, stream: StreamPolicy) -> Price:
    return price(public_timeline(debits), theta, stream.adversary)


def spending(stream: StreamPolicy, window: str, *, theta: Box, noises: Iterable[Noise]) -> Spending:
    """How much of the public budget a window may use so that the whole tumbling sequence stays within ε for ever.

    At constant tilt the loss is ε exactly when τ = min(log M0, log M1) (docs/theory.md, constant tilt). The
    windows of the policy share the tilt equally; the shortest also pays for learning. Nothing here depends on
    the data but Θ and the noise settings, which were learned from charged statistics.
    """
    tau = min(limits(theta, stream.epsilon.public, stream.adversary))
    w = min([LARGEST_TILT, *(release_tilt(noise, tau) for noise in noises)])
    share = w * (1 - stream.learning) / len(stream.windows)
    learning = w * stream.learning if window == shortest_window(stream) else 0.0
    return Spending(release=math.floor(share * NANO), learning=math.floor(learning * NANO))


def shortest_window(stream: StreamPolicy) -> str:
    return min(stream.windows, key=lambda name: (stream.windows[name].ticks, name))


def scale_for(sensitivity: int, tilt: int) -> float:
    """The Laplace scale at which this L1 sensitivity costs at most `tilt` nano-nats: rounded up, to more noise."""
    return math.nextafter(sensitivity * NANO / tilt, math.inf)


def _segments(spans: Sequence[tuple[int, int, T]]) -> Iterable[tuple[int, int, list[T]]]:
    """Cut overlapping spans into disjoint ones, each with all that covers it."""
    cuts = sorted({first for first, _, _ in spans} | {last + 1 for _, last, _ in spans})
    by_start = sorted(spans, key=lambda span: span[0])
    active: list[tuple[int, T]] = []
    position = 0
    for start, stop in pairwise(cuts):
        while position < len(by_start) and by_start[position][0] <= start:
            active.append((by_start[position][1], by_start[position][2]))
            position += 1
        active = [(last, value) for last, value in active if last >= start]
        if active:
            yield start, stop - 1, [value for _, value in active]
