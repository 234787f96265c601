"""Counting a window: the states of its members, exactly, by device and noise version; what did not arrive is filled.

Histograms count filled ticks, so that they do not tell which ticks arrived. Learning does not: a stand-in is no
evidence of how a device's states follow each other, and a device that is late for long would contradict its Θ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, select

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.query_message import transition_share
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.calibrator.models.window_count import Pieces, WindowCount
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import LONGEST_BATCH, batch
from hushmq.calibrator.windows.fill_window import Piece, StandIns, by_version, filled_pieces, without

if TYPE_CHECKING:
    from hushmq.calibrator.models.pair_count import PairCount

# Built once: SQLAlchemy takes longer to build a statement than SQLite to run it.
_STATES = select(batch.c.device, batch.c.noise, batch.c.first, batch.c.last, batch.c.states).where(
    batch.c.stream == bindparam("stream"),
    batch.c.first > bindparam("after"),
    batch.c.first <= bindparam("last"),
    batch.c.last >= bindparam("first"),
    batch.c.noise > bindparam("meaning_since"),
)


@dataclass(frozen=True, slots=True)
class CountedWindow:
    """A window's counts, secret until noise is drawn for them; and what of it did not arrive, which stays with us."""

    count: WindowCount[Any, Any]
    filled: int
    """Ticks that were filled just now."""
    silent: frozenset[str]
    """Members of which no tick arrived."""
    arrived: WindowCount[Any, Any] | None = None
    """The counts without filled ticks, of the devices that have some; None where nothing is filled."""
    incomplete: frozenset[str] = frozenset()
    """Members with filled ticks, drawn now or by an earlier window."""
    pairs: PairCount | None = None
    """Pairs of consecutive states, where the policy asks for transitions."""

    def evidence(self) -> list[ExactStatistics]:
        """The sufficient statistics for learning, exactly: of what arrived, and of nothing that was filled."""
        found = [one for one in self.count.statistics() if one.device not in self.incomplete]
        return found if self.arrived is None else [*found, *self.arrived.statistics()]


def count_window(
    db: Connection, span: Span, policy: StreamPolicy, members: Collection[str], *, meaning_since: int = 0
) -> CountedWindow:
    """Count every tick of every member: what arrived, and a stand-in for what did not.

    A state whose noise was issued up to version `meaning_since` has another meaning: a stand-in is counted for it.
    """
    rows = db.execute(
        _STATES,
        {
            "stream": span.stream,
            "after": span.first - LONGEST_BATCH,
            "first": span.first,
            "last": span.last,
            "meaning_since": meaning_since,
        },
    )
    length = span.last - span.first + 1
    arrived: dict[str, list[Piece]] = defaultdict(list)
    for row in rows:
        first, last = max(row.first, span.first), min(row.last, span.last)
        arrived[row.device].append(
            Piece(first, row.noise, row.states[first - row.first : last - row.first + 1])
        )
    drawn = filled_pieces(db, span)
    stand_ins = StandIns(db, span, policy)
    whole: dict[str, list[Piece]] = {}
    partial: dict[str, list[Piece]] = {}
    for device in members:
        in_time = pieces = arrived.get(device, [])
        if device in drawn:
            in_time = list(without(in_time, drawn[device]))
            pieces = [*in_time, *drawn[device]]
        if sum(len(piece.states) for piece in pieces) < length:
            pieces = stand_ins.fill(device, pieces)
        if len(pieces) > len(in_time):
            partial[device] = in_time
        whole[device] = pieces
    stand_ins.store()
    model, found = model_of(policy), by_version(whole)
    return CountedWindow(
        model.count(policy, found),
        stand_ins.drawn,
        frozenset(device for device in members if device not in arrived),
        model.count(policy, by_version(partial)) if partial else None,
        frozenset(partial),
        _pairs(policy, span, found),
    )


def _pairs(policy: StreamPolicy, span: Span, found: Pieces) -> PairCount | None:
    """Return the pairs of consecutive states, where a query asks for them."""
    if transition_share(policy.queries, span.window) == 0:
        return None
    from hushmq.calibrator.models.pair_count import PairCount  # noqa: PLC0415  # numpy: not before it is asked for

    return PairCount(found, len(policy.states))
