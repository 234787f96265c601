"""The accounts of the outbox, in ticks: sampled = forgotten because counted + buffered + dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hushmq.broker.contract.tick_runs import Runs

OVERHEAD = 64
"""Bytes that the file needs beside a batch's own."""

LOST_RUNS = 256
"""How many runs of lost ticks are remembered per stream; older ones stay dropped for good."""


@dataclass(slots=True)
class Books:
    """One stream's account, in ticks."""

    period_ms: int
    watermark: int = -1
    sampled: int = 0
    dropped: int = 0
    buffered: int = 0
    waiting: Runs = field(default_factory=Runs)
    """The newest runs of the buffered ticks, for the mark: a full outbox may have half a million."""
    lost: Runs = field(default_factory=Runs)

    def arrive(self, first: int, last: int) -> None:
        self.buffered += last - first + 1
        self.waiting.add(first, last)
        self.waiting.keep_newest(LOST_RUNS)

    def leave(self, first: int, last: int) -> None:
        self.buffered -= last - first + 1
        self.waiting.remove(first, last)


class Draft:
    """What one transaction changes: applied to the books only once it is committed."""

    def __init__(self, books: Mapping[str, Books]) -> None:
        self._books = books
        self.touched: dict[str, Books] = {}
        self._moves: list[tuple[Callable[[Books, int, int], None], str, int, int]] = []
        self.bytes = 0

    def book(self, stream: str, period_ms: int = 0) -> Books:
        """The account of a stream as it will be; what is buffered is still as it was."""
        if stream not in self.touched:
            old = self._books.get(stream) or Books(period_ms)
            self.touched[stream] = replace(old, lost=Runs(old.lost))
        return self.touched[stream]

    def arrive(self, stream: str, first: int, last: int, size: int) -> None:
        self._moves.append((Books.arrive, stream, first, last))
        self.bytes += size + OVERHEAD

    def leave(self, stream: str, first: int, last: int, size: int) -> None:
        self._moves.append((Books.leave, stream, first, last))
        self.bytes -= size + OVERHEAD

    def apply(self, books: dict[str, Books]) -> None:
        books.update(self.touched)
        for move, stream, first, last in self._moves:
            move(books[stream], first, last)
