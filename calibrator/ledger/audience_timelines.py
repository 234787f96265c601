"""The public account: what an entry costs, what the whole history costs, and what the next window may spend.

Theorem (docs/theory.md, Theorem 8). A window is counted from sanitized states. If all that is published
about one sanitized state has tilt w, then what is published about the true state has tilt

    amplified(ρ, w) = max over directions of log( ((1−ρ0)·e^w + ρ0) / (ρ1·e^w + 1−ρ1) ).

For more than two states the noise is an emission matrix B, and amplified(B, w) the largest log ratio over pairs of
states and sets S of outputs, log( (1 + (e^w−1)·B[u](S)) / (1 + (e^w−1)·B[v](S)) ) (pufferfish/categorical/emission.py).

amplified is not subadditive: two things counted from the SAME sanitized states share their noise. So the ledger
keeps w itself; the w of one tick are added first and amplified once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, bindparam, func, select

from hushmq.broker.contract.messages import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.models.categorical.categorical_statistics import MOST_STATES
from hushmq.calibrator.models.chain_model import (
    FREE,
    AnyNoise,
    AnyTheta,
    amplified,
    keeps,
    known_loss,
    priced,
    read,
    release_tilt,
    tilts,
    timeline,
    window_tilt,
)
from hushmq.calibrator.store.tables import device_tilt, extent, ledger, setting
from hushmq.pufferfish.binary.binary_timeline import Entry, Price
from hushmq.pufferfish.binary.stream_loss import limits
from hushmq.pufferfish.categorical.transition_intervals import Class
from hushmq.pufferfish.window_method import Method

T = TypeVar("T")
NANO = 1_000_000_000
LAST_TICK = 2**53 - 1
"""The largest tick a message can carry."""
MARGIN = 1e-8
"""What the timeline's certificate may add to the closed form: without it a window would miss ε by a rounding."""
TILTED: frozenset[Method] = frozenset({"least-noise", "tilted-quilt"})
"""Methods that allow every tilt which the ledger prices within ε."""
LARGEST_TILT = 8.0
"""Where the stream alone is within the public budget no noise is owed; a window still gets a little."""


@dataclass(frozen=True, slots=True)
class Debit:
    """One entry of the public account: `tilt` nano-nats on the sanitized states of first … last."""

    first: int
    last: int
    tilt: int
    noise: AnyNoise


@dataclass(frozen=True, slots=True)
class Spending:
    """What closing one window spends, in nano-nats on the sanitized states."""

    release: int
    learning: int

    @property
    def tilt(self) -> int:
        return self.release + self.learning

    def lessened(self) -> Spending:
        """Three quarters of it."""
        return Spending(self.release * 3 // 4, self.learning * 3 // 4)


@dataclass(frozen=True, slots=True)
class Holder:
    """A promise that may be broken: to a device with settings of its own, whose chain lies in Θ.

    `noises` are all that its states can carry, the cohort's settings and its own; `own` are the latter, each with the
    first tick that can carry it.
    """

    device: str
    theta: AnyTheta
    noises: tuple[AnyNoise, ...]
    own: tuple[tuple[int, AnyNoise], ...] = ()

    def public_loss(self, tau: float, stream: StreamPolicy) -> float:
        """At most what releases tell of it, if no tick's true state is tilted by more than τ.

        The loss rises with every tick's tilt, so the constant timeline bounds it.
        """
        return known_loss(self.theta, tau, tau, stream.adversary)

    def within_public(self, tau: float, stream: StreamPolicy) -> bool:
        """Whether that is within ε: mostly known from a tilt asked for before."""
        return keeps(self.theta, tau, stream.epsilon.public, stream.adversary)

    def allows(self, stream: StreamPolicy, method: Method, most: float, device_tilt: int) -> float:
        """As `allowed`. That `most` keeps ε is one loss where the largest such tilt is a search."""
        if most <= 0:
            return 0.0
        if method in TILTED:
            tau = max(amplified(noise, most) for noise in self.noises) + device_tilt / NANO
            # What a search would leave free is left free.
            tau = tau / (1 - FREE) if isinstance(self.theta, Class) else tau
            if keeps(self.theta, tau, stream.epsilon.public - MARGIN, stream.adversary):
                return most
        return allowed(stream, method, self.theta, self.noises, most, device_tilt)

    def operator_loss(self, stream: StreamPolicy, device_tilt: int = 0) -> float:
        """At most what its sanitized stream tells, whichever of its settings it used when."""
        own = device_tilt / NANO
        tau0, tau1 = (max(taus) + own for taus in zip(*map(tilts, self.noises), strict=True))
        return known_loss(self.theta, tau0, tau1, stream.adversary)


# Made once: to put a statement together costs more than to run it.
_DEBITS = (
    select(ledger)
    .where(
        ledger.c.stream == bindparam("stream"),
        ledger.c.audience == "public",
        ledger.c.id > bindparam("after"),
    )
    .order_by(ledger.c.id)
)
_ISSUED = select(setting.c.version, setting.c.noise, setting.c.issued).where(
    setting.c.stream == bindparam("stream")
)
_ISSUED_TO_ALL = _ISSUED.where(setting.c.device.is_(None))


def public_debits(db: Connection, stream: str) -> list[Debit]:
    """The stream's public account so far."""
    return [debit for _, debit in debits_after(db, stream, 0)]


def debits_after(db: Connection, stream: str, entry: int) -> list[tuple[int, Debit]]:
    """The entries of the stream's public account after a given one, with their numbers, in order."""
    rows = db.execute(_DEBITS, {"stream": stream, "after": entry}).all()
    noises = issued_noises(db, stream) if rows else {}
    return [(row.id, debit_of(row, noises)) for row in rows]


def debit_of(row: Row[Any], noises: Mapping[int, AnyNoise]) -> Debit:
    """The debit that a row of the ledger stands for; Problem where the noise it was charged through is lost."""
    if row.noise not in noises:
        raise Problem(
            f"ledger entry {row.id} was charged through noise version {row.noise} of {row.stream}, which the database "
            "does not hold: restore its settings"
        )
    return Debit(row.first, row.last, row.tilt, noises[row.noise])


def issued_noises(
    db: Connection, stream: str, *, of_cohort: bool = False, by: int | None = None
) -> Mapping[int, AnyNoise]:
    """The noise of every setting for the stream, by version: of those for all devices, that a tick `by` can carry."""
    return {
        version: read(noise)
        for version, noise, issued in db.execute(_ISSUED_TO_ALL if of_cohort else _ISSUED, {"stream": stream})
        if by is None or issued <= by
    }


def public_timeline(debits: Iterable[Debit]) -> list[Entry]:
    """τ(t) for whoever reads only releases: add the tilts of one tick, then amplify once through its noise."""
    return [
        Entry(first, last, tau, tau)
        for first, last, active in _segments([(debit.first, debit.last, debit) for debit in debits])
        for tau in [_joint_tilt(active)]
    ]


def _joint_tilt(debits: Sequence[Debit]) -> float:
    return joint_tilt(sum(debit.tilt for debit in debits), {debit.noise for debit in debits})


def joint_tilt(tilt: int, noises: Iterable[AnyNoise]) -> float:
    """What `tilt` nano-nats on the sanitized states tell about the true ones, behind the least of the noises."""
    return max(amplified(noise, tilt / NANO) for noise in noises)


def operator_timeline(db: Connection, stream: str, device: str | None = None) -> list[Entry]:
    """τ(t) for whoever reads the sanitized stream: at each tick the least noise that any device used there.

    A device's own settings are not the others': they count in its own timeline alone.
    """
    mine = setting.c.device.is_(None) | (setting.c.device == device)
    always_ = always(largest_device_tilt(db, stream))
    rows = db.execute(
        select(extent.c.first, extent.c.last, setting.c.noise).where(
            extent.c.stream == stream, setting.c.stream == stream, setting.c.version == extent.c.noise, mine
        )
    )
    spans = [(row.first, row.last, tilts(read(row.noise))) for row in rows]
    return always_ + [
        Entry(first, last, *(max(taus) for taus in zip(*active, strict=True)))
        for first, last, active in _segments(spans)
    ]


def operator_loss(
    db: Connection, stream: str, policy: StreamPolicy, theta: AnyTheta, others: Iterable[Holder] = ()
) -> float:
    """What the sanitized stream tells of any device: the cohort's under Θ, and those with settings of their own."""
    found = priced(timeline(theta, policy.adversary, operator_timeline(db, stream))).epsilon
    tilt = largest_device_tilt(db, stream)
    for one in others:
        # The quick bound first: it is looked at closely only where it could be over.
        bound = one.operator_loss(policy, tilt)
        if bound > policy.epsilon.operator:
            own = timeline(one.theta, policy.adversary, operator_timeline(db, stream, one.device))
            bound = min(bound, priced(own).epsilon)
        found = max(found, bound)
    return found


def price_public(
    debits: Iterable[Debit], theta: AnyTheta, stream: StreamPolicy, device_tilt: int = 0
) -> Price:
    return priced(timeline(theta, stream.adversary, [*always(device_tilt), *public_timeline(debits)]))


def tilt_of_devices(stream: StreamPolicy) -> int:
    """What device-made windows cost at every tick, in both accounts: 1/scale each for two states, in nano-nats.

    A device draws them from true states, so nothing is amplified, and the tilts simply add (docs/theory.md, section 2).
    """
    changes = 1 if len(stream.states) == 2 else 2
    return math.ceil(sum(changes / window.scale for window in stream.device_windows.values()) * NANO)


def largest_device_tilt(db: Connection, stream: str) -> int:
    """The largest cost of device-made windows under any policy followed so far: a device may lag behind."""
    found = db.execute(select(func.max(device_tilt.c.tilt)).where(device_tilt.c.stream == stream)).scalar()
    return int(found or 0)


def always(tilt: int) -> list[Entry]:
    """A tilt at every tick there will ever be, in nano-nats."""
    return [Entry(0, LAST_TICK, tilt / NANO, tilt / NANO)] if tilt else []


def spending(
    stream: StreamPolicy,
    window: str,
    scope: str = "cohort",
    *,
    theta: AnyTheta,
    noises: Iterable[AnyNoise],
    device_tilt: int = 0,
    others: Iterable[Holder] = (),
) -> Spending:
    """How much of the public budget a window may use so that the whole tumbling sequence stays within ε for ever.

    The window's method says which tilt keeps ε at every tick (pufferfish/window_method.py). The windows of the
    policy, once for each of their scopes, share it equally; the shortest also pays for learning. Nothing here
    depends on the data but Θ, which was learned from charged statistics, and the noise settings, made from it.
    """
    method = stream.windows[window].method
    w = allowed(stream, method, theta, noises, LARGEST_TILT, device_tilt)
    for one in others:
        w = one.allows(stream, method, w, device_tilt)
    learning = w * stream.learning if learns(stream) else 0.0
    share = (w - learning) / sum(len(each.scopes) for each in stream.windows.values())
    if not pays_for_learning(stream, window, scope):
        learning = 0.0
    return Spending(release=math.floor(share * NANO), learning=math.floor(learning * NANO))


def allowed(
    stream: StreamPolicy,
    method: Method,
    theta: AnyTheta,
    noises: Iterable[AnyNoise],
    most: float,
    device_tilt: int,
) -> float:
    """The largest tilt on sanitized states, up to `most`, that keeps ε of the public behind all of these noises."""
    tau = window_tilt(method, theta, stream.epsilon.public - MARGIN, stream.adversary) - device_tilt / NANO
    return min([most, *(release_tilt(noise, tau) for noise in noises)]) if tau > 0 else 0.0


# Θ changes rarely and windows close often.
known_limits = lru_cache(maxsize=256)(limits)


def learns(stream: StreamPolicy) -> bool:
    """Whether Θ is learned at all: not where there are too many states for it."""
    return len(stream.states) <= MOST_STATES


def pays_for_learning(stream: StreamPolicy, window: str, scope: str) -> bool:
    """Whether statistics are drawn with this window: one of each stream, the shortest, and once."""
    return learns(stream) and window == shortest_window(stream) and scope == stream.windows[window].scopes[0]


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
