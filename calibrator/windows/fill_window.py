"""Ticks of a window that did not arrive: each is filled with the policy's stand-in, perturbed like any other state.

Theorem 12 (docs/theory-world.md): a state that did not arrive is one more value a state can have, mapped onto the
stand-in before the noise. What a window releases then has the same law as if the device had sent a stand-in, and
costs no more. Nothing is learned from it (calibrator/windows/count_window.py). Stand-ins are drawn once, by the
operating system's generator, in the transaction that closes the window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, insert, select

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.models.choose_model import model_of, read_noise
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import filled, setting
from hushmq.calibrator.windows.closed_windows import sequences
from hushmq.pufferfish.protocols import Noise


@dataclass(frozen=True, slots=True)
class Piece:
    """States of one device at consecutive ticks under one noise version."""

    first: int
    noise: int
    states: bytes = field(repr=False)

    @property
    def end(self) -> int:
        """The tick after the last."""
        return self.first + len(self.states)

    def cut(self, first: int, end: int) -> Piece | None:
        """The part within first … end − 1; None if there is none."""
        low, high = max(self.first, first), min(self.end, end)
        return (
            Piece(low, self.noise, self.states[low - self.first : high - self.first]) if low < high else None
        )


@dataclass(frozen=True, slots=True)
class Issued:
    """A noise version, the first tick that can carry it, and whose it is: one device's, or None for everybody's."""

    version: int
    tick: int
    device: str | None
    stored: str

    @property
    def noise(self) -> Noise:
        return read_noise(self.stored)


_ISSUED = (
    select(setting.c.version, setting.c.issued, setting.c.device, setting.c.noise)
    .where(setting.c.stream == bindparam("stream_"))
    .order_by(setting.c.version)
)
_FILLED = select(filled).where(
    filled.c.stream == bindparam("stream_"),
    filled.c.first <= bindparam("last_"),
    filled.c.last >= bindparam("first_"),
)


def filled_pieces(db: Connection, span: Span) -> dict[str, list[Piece]]:
    """Stand-ins that an earlier window over the same ticks drew, by device."""
    found: dict[str, list[Piece]] = {}
    where = {"stream_": span.stream, "first_": span.first, "last_": span.last}
    for row in db.execute(_FILLED, where):
        piece = Piece(row.first, row.noise, row.states).cut(span.first, span.last + 1)
        if piece is not None:
            found.setdefault(row.device, []).append(piece)
    return found


def without(pieces: Iterable[Piece], drawn: Sequence[Piece]) -> Iterator[Piece]:
    """The parts of what arrived that no stand-in was drawn for."""
    for piece in pieces:
        cursor = piece.first
        for one in sorted(drawn, key=lambda one: one.first):
            before = piece.cut(cursor, one.first)
            if before is not None:
                yield before
            cursor = max(cursor, one.end)
        rest = piece.cut(cursor, piece.end)
        if rest is not None:
            yield rest


@dataclass(slots=True)
class StandIns:
    """Draws the stand-ins of one window and stores them where another window will count the same ticks."""

    db: Connection
    span: Span
    policy: StreamPolicy
    drawn: int = 0
    _issued: Sequence[Issued] | None = None
    _rows: list[dict[str, object]] = field(default_factory=list, repr=False)

    def fill(self, device: str, pieces: Iterable[Piece]) -> list[Piece]:
        """The pieces, in order, and stand-ins for the ticks of the window that they leave out."""
        known = sorted(pieces, key=lambda one: one.first)
        whole: list[Piece] = []
        cursor = self.span.first
        for number, piece in enumerate([*known, None]):
            stop = self.span.last + 1 if piece is None else piece.first
            if cursor < stop:
                whole.append(self._draw(device, cursor, stop, known[max(0, number - 1) : number + 1]))
            if piece is not None:
                whole.append(piece)
                cursor = piece.end
        return whole

    def store(self) -> None:
        """Keep what was drawn, unless no other sequence of windows can ask for it."""
        if self._rows and len(list(sequences(self.policy))) > 1:
            self.db.execute(insert(filled), self._rows)

    def _draw(self, device: str, first: int, stop: int, beside: Sequence[Piece]) -> Piece:
        one = self._carried(device, first, beside)
        states = model_of(self.policy).stand_ins(one.noise, self.policy.stand_in_state, stop - first)
        self.drawn += stop - first
        self._rows.append(
            {
                "device": device,
                "stream": self.span.stream,
                "first": first,
                "last": stop - 1,
                "noise": one.version,
                "states": states,
            }
        )
        return Piece(first, one.version, states)

    def _carried(self, device: str, tick: int, beside: Sequence[Piece]) -> Issued:
        """What the device used before the tick, or else after it if it can have had it; else the newest it can have."""
        mine = {one.version: one for one in self._all() if one.device in {None, device}}
        for piece in beside:
            if mine[piece.noise].tick <= tick:
                return mine[piece.noise]
        known = [one for one in mine.values() if one.tick <= tick]
        return known[-1] if known else next(iter(mine.values()))

    def _all(self) -> Sequence[Issued]:
        """All settings of the stream in the order of their versions."""
        if self._issued is None:
            rows = self.db.execute(_ISSUED, {"stream_": self.span.stream})
            self._issued = [Issued(row.version, row.issued, row.device, row.noise) for row in rows]
        return self._issued


def by_version(pieces: Mapping[str, Iterable[Piece]]) -> dict[tuple[str, int], list[tuple[int, bytes]]]:
    """The same pieces by device and noise version, as chain models count them."""
    found: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
    for device, mine in pieces.items():
        for piece in mine:
            found.setdefault((device, piece.noise), []).append((piece.first, piece.states))
    return found
