"""The public account of one stream, kept in memory behind the ledger so that a charge does not read all of history.

It holds the same function τ(t) as `charge.public_timeline`, piece by piece: a new entry raises the tilt w of some
ticks, and what their true states pay rises from amplified(w) to amplified(w + new). That rise, not the amplified
tilt of the entry alone, is what is added to the timeline (amplification is not subadditive,
calibrator/ledger/audience_timelines.py).
"""

from __future__ import annotations

import copy
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from hushmq.calibrator.ledger.audience_timelines import NANO, Debit, always, debits_after, joint_tilt
from hushmq.calibrator.models.chain_model import AnyNoise, AnyTheta, AnyTimeline, priced, timeline
from hushmq.pufferfish.binary.binary_timeline import Entry, Price
from hushmq.pufferfish.binary.stream_loss import Adversary

FEW = 32
"""With more new entries than this, the timeline is made anew from the pieces: quicker than one by one."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Ticks with the same tilt on their sanitized states, behind the same noises."""

    first: int
    last: int
    tilt: int = 0
    noises: frozenset[AnyNoise] = frozenset()

    @property
    def tau(self) -> float:
        return joint_tilt(self.tilt, self.noises) if self.noises else 0.0

    def cut(self, first: int, last: int) -> Piece:
        return Piece(first, last, self.tilt, self.noises)

    def charged(self, debit: Debit) -> Piece:
        return Piece(self.first, self.last, self.tilt + debit.tilt, self.noises | {debit.noise})


class Account:
    """What whoever reads only releases can infer under Θ. Follows the ledger; never ahead of it."""

    def __init__(self, theta: AnyTheta, adversary: Adversary, device_tilt: int = 0) -> None:
        self.theta, self.adversary, self.device_tilt = theta, adversary, device_tilt
        self.entries = 0
        self._through = 0
        self._timeline = timeline(theta, adversary, always(device_tilt))
        self._pieces: list[Piece] = []
        self._trial: tuple[Debit, AnyTimeline] | None = None

    def follow(self, db: Connection, stream: str) -> None:
        """Take up the ledger's entries that are new since the last time."""
        new = debits_after(db, stream, self._through)
        if len(new) <= FEW:
            for entry, debit in new:
                self.charge(entry, debit)
            return
        for entry, debit in new:
            self._replace(list(self._touched(debit)), debit)
            self._through = entry
        self.entries += len(new)
        self._trial = None
        held = [Entry(piece.first, piece.last, piece.tau, piece.tau) for piece in self._pieces]
        self._timeline = timeline(self.theta, self.adversary, [*always(self.device_tilt), *held])

    def charge(self, entry: int, debit: Debit) -> None:
        """Take up one entry of the ledger, the next one."""
        self._timeline = self._with(debit)
        self._trial = None
        self._replace(list(self._touched(debit)), debit)
        self._through = entry
        self.entries += 1

    def price(self) -> Price:
        return priced(self._timeline)

    def heaviest(self, debit: Debit | None = None) -> int:
        """The largest tilt on the sanitized state of any tick, with the debit if there is one."""
        held = max((piece.tilt for piece in self._pieces), default=0)
        under = max((piece.tilt for piece in self._touched(debit)), default=0) if debit else 0
        return max(held, under + debit.tilt) if debit else held

    def most(self, own: Iterable[tuple[int, AnyNoise]], debit: Debit | None = None) -> float:
        """The largest tilt on any tick's true state, for a device that had these noises too, each from a tick on.

        A window is behind the noises that its ticks can carry; one that is issued later weakens no window before it.
        """
        own = tuple(own)
        pieces = [*self._pieces, *((piece.charged(debit) for piece in self._touched(debit)) if debit else ())]
        taus = (
            joint_tilt(piece.tilt, [*piece.noises, *(noise for first, noise in own if first <= piece.last)])
            for piece in pieces
        )
        return self.device_tilt / NANO + max(taus, default=0.0)

    def price_with(self, debit: Debit) -> Price:
        """The price if the debit were made; nothing changes."""
        return priced(self._with(debit))

    def _with(self, debit: Debit) -> AnyTimeline:
        """The timeline with the debit. What is tried is mostly what the ledger then brings, so it is kept for that."""
        if self._trial is None or self._trial[0] != debit:
            trial = copy.copy(self._timeline)
            for rise in _rises(self._touched(debit), debit):
                trial.add(rise)
            self._trial = debit, trial
        return self._trial[1]

    def _touched(self, debit: Debit) -> Iterator[Piece]:
        """What the debit's ticks hold now, cut to them and without gaps."""
        cursor = debit.first
        for piece in self._pieces[self._range(debit)]:
            if cursor < piece.first:
                yield Piece(cursor, piece.first - 1)
            yield piece.cut(max(piece.first, debit.first), min(piece.last, debit.last))
            cursor = piece.last + 1
        if cursor <= debit.last:
            yield Piece(cursor, debit.last)

    def _range(self, debit: Debit) -> slice:
        low = bisect_left(self._pieces, debit.first, key=lambda piece: piece.last)
        return slice(low, max(low, bisect_right(self._pieces, debit.last, key=lambda piece: piece.first)))

    def _replace(self, touched: list[Piece], debit: Debit) -> None:
        where = self._range(debit)
        old = self._pieces[where]
        new = [piece.charged(debit) for piece in touched]
        if old and old[0].first < debit.first:
            new.insert(0, old[0].cut(old[0].first, debit.first - 1))
        if old and old[-1].last > debit.last:
            new.append(old[-1].cut(debit.last + 1, old[-1].last))
        # Equal neighbours are one piece, so that tumbling windows for ever are a single one.
        before = self._pieces[where.start - 1 : where.start] if where.start else []
        after = self._pieces[where.stop : where.stop + 1]
        self._pieces[where.start - len(before) : where.stop + len(after)] = _merged([*before, *new, *after])


def _rises(touched: Iterator[Piece] | list[Piece], debit: Debit) -> list[Entry]:
    """By how much the debit raises τ on each of the pieces, rounded up; equal neighbours together."""
    rises: list[Entry] = []
    for piece in touched:
        rise = math.nextafter(piece.charged(debit).tau - piece.tau, math.inf)
        if rises and rises[-1].tau0 == rise and rises[-1].last + 1 == piece.first:
            rises[-1] = Entry(rises[-1].first, piece.last, rise, rise)
        else:
            rises.append(Entry(piece.first, piece.last, rise, rise))
    return rises


def _merged(pieces: list[Piece]) -> list[Piece]:
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        same = last is not None and (last.tilt, last.noises, last.last + 1) == (
            piece.tilt,
            piece.noises,
            piece.first,
        )
        if last is not None and same:
            merged[-1] = last.cut(last.first, piece.last)
        else:
            merged.append(piece)
    return merged
