"""The public account of one stream, kept in memory behind the ledger so that a charge does not read all of history.

It holds the same function τ(t) as `public_timeline` (calibrator/ledger/audience_timelines.py), piece by piece: a new
entry raises the tilt w of some ticks, and the tilt of their true states rises from amplified(w) to amplified(w + new).
That rise, not the amplified tilt of the entry alone, is what is added to the timeline, since amplification is not
subadditive (calibrator/ledger/debits.py).

The one τ(t) of all epochs is priced at the ticks of the current epoch, and at those of each that has ended
(calibrator/ledger/epochs.py).
"""

from __future__ import annotations

import copy
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from hushmq.calibrator.ledger.audience_timelines import always, finite, finite_price
from hushmq.calibrator.ledger.debits import Amplifier, Debit, debits_after, joint_tilt
from hushmq.calibrator.ledger.epochs import Epochs
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.protocols import Noise, Theta, Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price

FEW = 32
"""With more new entries than this, rebuilding the timeline from its pieces is quicker than adding them one by one."""


@dataclass(frozen=True, slots=True)
class EqualTilt:
    """Ticks with the same tilt on their sanitized states, behind the same noises."""

    first: int
    last: int
    tilt: int = 0
    noises: frozenset[Amplifier] = frozenset()

    @property
    def tau(self) -> float:
        return joint_tilt(self.tilt, self.noises) if self.noises else 0.0

    def cut(self, first: int, last: int) -> EqualTilt:
        return EqualTilt(first, last, self.tilt, self.noises)

    def charged(self, debit: Debit) -> EqualTilt:
        return EqualTilt(self.first, self.last, self.tilt + debit.tilt, self.noises | {debit.noise})


@dataclass(frozen=True, slots=True)
class ProposedDebit:
    """A debit that is not in the ledger yet, and the timelines with it. Valid until another entry is followed."""

    debit: Debit
    after: int
    """The entry that the account had followed when the debit was proposed."""
    timelines: tuple[Timeline, ...]
    """Of the current epoch, and of each that has ended."""
    rises: tuple[Entry, ...]
    """By how much it raises the tilts of true states."""

    def price(self) -> Price:
        """The price of the current epoch with the debit."""
        return finite_price(self.timelines[0])

    def prices_if(self, later: Entry | None) -> list[Price]:
        """The price of the current epoch and of each ended one with the debit, and with what is to come after it."""
        if later is None:
            return [finite_price(one) for one in self.timelines]
        return [finite(one.price_with(later)) for one in self.timelines]


class PublicAccount:
    """What an adversary who reads only releases can infer under Θ. It follows the ledger and is never ahead of it."""

    def __init__(
        self,
        theta: Theta,
        adversary: Adversary,
        device_tilt: int = 0,
        epochs: Epochs | None = None,
        *,
        stride: int = 1,
    ) -> None:
        self.theta, self.adversary, self.device_tilt, self.stride = theta, adversary, device_tilt, stride
        self.epochs = epochs or Epochs()
        self.entries = 0
        self.followed = 0
        """The number of the last ledger entry in it."""
        self._pieces: list[EqualTilt] = []
        self._timelines = self._priced()
        self._against: dict[Adversary, Timeline] = {}
        """The current epoch's timeline for other adversaries, of those that were asked about."""

    def follow(self, db: Connection, stream: str) -> None:
        """Read the ledger's entries that are new since the last time."""
        new = debits_after(db, stream, self.followed)
        if len(new) <= FEW:
            for entry, debit in new:
                self.charge(entry, debit)
            return
        for entry, debit in new:
            self._replace(list(self._touched(debit)), debit)
            self.followed = entry
        self.entries += len(new)
        self._timelines = self._priced()
        self._against.clear()

    def _priced(self) -> tuple[Timeline, ...]:
        """The timeline of the current epoch, and of each that has ended."""
        held = self.held()
        priced = [(self.theta, self.epochs.ticks), *((one.theta, one.ticks) for one in self.epochs.ended)]
        return tuple(
            theta.timeline(self.adversary, held, ticks, stride=self.stride) for theta, ticks in priced
        )

    def least_protecting(self, noises: Mapping[int, Noise], first: int, last: int, tilt: int) -> int | None:
        """The version that a debit of this tilt names, so that no other of these noises makes any of its ticks dearer.

        The order of two noises can be another one for the sum of two tilts than for each of them. None if no version
        is the worst, beside what the ticks were charged through before, for the sums at all of them.
        """
        by_tilt = sorted(noises, key=lambda version: -noises[version].amplified(tilt / NANO))
        for version in by_tilt:
            debit = Debit(first, last, tilt, noises[version])
            pieces = [piece.charged(debit) for piece in self._touched(debit)]
            if all(joint_tilt(piece.tilt, noises.values()) <= piece.tau for piece in pieces):
                return version
        return None

    def propose(self, debit: Debit) -> ProposedDebit:
        """The account with the debit; the account itself does not change."""
        timelines = tuple(copy.copy(one) for one in self._timelines)
        rises = tuple(_rises(self._touched(debit), debit))
        for rise in rises:
            for one in timelines:
                one.add(rise)
        return ProposedDebit(debit, self.followed, timelines, rises)

    def commit(self, entry: int, proposed: ProposedDebit) -> None:
        """Follow the next entry of the ledger, which is what was proposed; ValueError if another was followed since."""
        if proposed.after != self.followed:
            raise ValueError("the account has followed another entry since the debit was proposed")
        self._timelines = proposed.timelines
        for one in self._against.values():
            for rise in proposed.rises:
                one.add(rise)
        self._replace(list(self._touched(proposed.debit)), proposed.debit)
        self.followed = entry
        self.entries += 1

    def charge(self, entry: int, debit: Debit) -> None:
        """Follow the next entry of the ledger."""
        self.commit(entry, self.propose(debit))

    def price(self) -> Price:
        """The largest loss at any tick of the current epoch."""
        return finite_price(self._timelines[0])

    def ended_prices(self) -> list[Price]:
        """The largest loss at any tick of each ended epoch, under the Θ that it ended with."""
        return [finite_price(one) for one in self._timelines[1:]]

    def price_against(self, adversary: Adversary) -> Price:
        """The largest loss at any tick of the current epoch to another adversary."""
        if adversary == self.adversary:
            return self.price()
        if adversary not in self._against:
            other = self.theta.timeline(adversary, self.held(), self.epochs.ticks, stride=self.stride)
            self._against[adversary] = other
        return finite_price(self._against[adversary])

    def held(self) -> list[Entry]:
        """The whole history as a timeline's entries."""
        held = [Entry(piece.first, piece.last, piece.tau, piece.tau) for piece in self._pieces]
        return [*always(self.device_tilt), *held]

    def largest_sanitized_tilt(self) -> int:
        """The largest tilt on the sanitized state of any tick, in nano-nats."""
        return max((piece.tilt for piece in self._pieces), default=0)

    def largest_true_tilt(
        self, device_noises: Sequence[tuple[int, Noise]], debit: Debit | None = None
    ) -> float:
        """The largest tilt on any tick's true state, with the debit, for a device that also had these noises.

        Each stands with the first tick that can carry it: a noise issued later weakens no window before it.
        """
        pieces = [*self._pieces, *((piece.charged(debit) for piece in self._touched(debit)) if debit else ())]
        taus = (_weakest_tilt(piece, device_noises) for piece in pieces)
        return self.device_tilt / NANO + max(taus, default=0.0)

    def true_tilts(
        self, device_noises: Sequence[tuple[int, Noise]], debit: Debit | None = None
    ) -> list[Entry]:
        """The tilts of the true states of such a device, with the debit, tick by tick."""
        pieces = self._pieces
        if debit is not None:
            after = copy.copy(self)
            after._pieces = list(pieces)
            after._replace(list(self._touched(debit)), debit)
            pieces = after._pieces
        found = [(piece.first, piece.last, _weakest_tilt(piece, device_noises)) for piece in pieces]
        return [*always(self.device_tilt), *(Entry(first, last, tau, tau) for first, last, tau in found)]

    def _touched(self, debit: Debit) -> Iterator[EqualTilt]:
        """What the debit's ticks hold now, cut to them and without gaps."""
        cursor = debit.first
        for piece in self._pieces[self._range(debit)]:
            if cursor < piece.first:
                yield EqualTilt(cursor, piece.first - 1)
            yield piece.cut(max(piece.first, debit.first), min(piece.last, debit.last))
            cursor = piece.last + 1
        if cursor <= debit.last:
            yield EqualTilt(cursor, debit.last)

    def _range(self, debit: Debit) -> slice:
        low = bisect_left(self._pieces, debit.first, key=lambda piece: piece.last)
        return slice(low, max(low, bisect_right(self._pieces, debit.last, key=lambda piece: piece.first)))

    def _replace(self, touched: list[EqualTilt], debit: Debit) -> None:
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


def _weakest_tilt(piece: EqualTilt, device_noises: Sequence[tuple[int, Noise]]) -> float:
    """The tilt of the true states of a piece, for a device that also had these noises from these ticks on."""
    issued = (noise for first, noise in device_noises if first <= piece.last)
    return joint_tilt(piece.tilt, [*piece.noises, *issued])


def _rises(touched: Iterator[EqualTilt] | list[EqualTilt], debit: Debit) -> list[Entry]:
    """By how much the debit raises τ on each of the pieces, rounded up; equal neighbours together."""
    rises: list[Entry] = []
    for piece in touched:
        rise = math.nextafter(piece.charged(debit).tau - piece.tau, math.inf)
        if rises and rises[-1].tau0 == rise and rises[-1].last + 1 == piece.first:
            rises[-1] = Entry(rises[-1].first, piece.last, rise, rise)
        else:
            rises.append(Entry(piece.first, piece.last, rise, rise))
    return rises


def _merged(pieces: list[EqualTilt]) -> list[EqualTilt]:
    merged: list[EqualTilt] = []
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
