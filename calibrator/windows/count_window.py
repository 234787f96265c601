"""The first step of closing a window: its states, counted exactly by device and noise version."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Connection, bindparam, select

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.models.window_count import WindowCount
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import batch
from hushmq.calibrator.windows.due_windows import LONGEST_BATCH

# Built once: SQLAlchemy takes longer to build a statement than SQLite to run it.
_STATES = select(batch.c.device, batch.c.noise, batch.c.first, batch.c.last, batch.c.states).where(
    batch.c.stream == bindparam("stream"),
    batch.c.first > bindparam("after"),
    batch.c.first <= bindparam("last"),
    batch.c.last >= bindparam("first"),
)


def count_window(db: Connection, span: Span, policy: StreamPolicy) -> WindowCount[Any, Any]:
    """The window's counts, secret until noise is drawn for them."""
    rows = db.execute(
        _STATES,
        {
            "stream": span.stream,
            "after": span.first - LONGEST_BATCH,
            "first": span.first,
            "last": span.last,
        },
    )
    pieces: dict[tuple[str, int], list[tuple[int, bytes]]] = defaultdict(list)
    for row in rows:
        first, last = max(row.first, span.first), min(row.last, span.last)
        pieces[row.device, row.noise].append((first, row.states[first - row.first : last - row.first + 1]))
    return model_of(policy).count(policy, pieces)
