"""The balance of the outbox, in ticks: sampled = counted + buffered + dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hushmq.broker.contract.tick_runs import TickRuns

OVERHEAD = 64
"""Bytes that the file needs per batch beside its payload."""

LOST_RUNS = 256
"""Maximum number of runs of lost ticks recorded per stream; older ones stay dropped."""


@dataclass(slots=True)
class StreamBalance:
    """The balance of one stream, in ticks."""

    period_ms: int
    watermark: int = -1
    sampled: int = 0
    dropped: int = 0
    buffered: int = 0
    waiting: TickRuns = field(default_factory=TickRuns)
    """The newest runs of the buffered ticks, for the mark: a full outbox may have half a million."""
    lost: TickRuns = field(default_factory=TickRuns)

    def arrive(self, first: int, last: int) -> None:
        self.buffered += last - first + 1
        self.waiting.add(first, last)
        self.waiting.keep_newest(LOST_RUNS)

    def leave(self, first: int, last: int) -> None:
        self.buffered -= last - first + 1
        self.waiting.remove(first, last)


class Draft:
    """The changes of one transaction, applied to the balances after it is committed."""

    def __init__(self, balances: Mapping[str, StreamBalance]) -> None:
        self._balances = balances
        self.touched: dict[str, StreamBalance] = {}
        self._moves: list[tuple[Callable[[StreamBalance, int, int], None], str, int, int]] = []
        self.bytes = 0

    def balance(self, stream: str, period_ms: int = 0) -> StreamBalance:
        """The balance of a stream after the transaction, except for `buffered` and `waiting`, which `apply` updates."""
        if stream not in self.touched:
            old = self._balances.get(stream) or StreamBalance(period_ms)
            self.touched[stream] = replace(old, lost=TickRuns(old.lost))
        return self.touched[stream]

    def arrive(self, stream: str, first: int, last: int, size: int) -> None:
        self._moves.append((StreamBalance.arrive, stream, first, last))
        self.bytes += size + OVERHEAD

    def leave(self, stream: str, first: int, last: int, size: int) -> None:
        self._moves.append((StreamBalance.leave, stream, first, last))
        self.bytes -= size + OVERHEAD

    def apply(self, balances: dict[str, StreamBalance]) -> None:
        balances.update(self.touched)
        for move, stream, first, last in self._moves:
            move(balances[stream], first, last)
