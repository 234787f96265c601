"""How far each tumbling sequence of windows is closed, and which counted states no window needs any more."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.store.tables import batch, closed

# Built once: SQLAlchemy takes longer to build a statement than SQLite to run it.
_SEQUENCE = (
    (closed.c.stream == bindparam("stream_"))
    & (closed.c.window == bindparam("window_"))
    & (closed.c.scope == bindparam("scope_"))
)
_THROUGH = select(closed.c.through).where(_SEQUENCE)
_CLOSE = update(closed).where(_SEQUENCE).values(through=bindparam("through_"))


def next_open_tick(db: Connection, stream: str, window: str, scope: str) -> int:
    """The first tick that no closed window of the sequence covers; 0 before the first is closed."""
    through = db.execute(_THROUGH, {"stream_": stream, "window_": window, "scope_": scope}).scalar()
    return 0 if through is None else int(through) + 1


def mark_closed(db: Connection, stream: str, window: str, scope: str, *, through: int) -> None:
    """Record that the sequence is closed up to and including tick `through`."""
    sequence = {"stream_": stream, "window_": window, "scope_": scope}
    if db.execute(_CLOSE, sequence | {"through_": through}).rowcount == 0:
        db.execute(insert(closed).values(stream=stream, window=window, scope=scope, through=through))


def delete_closed_states(db: Connection, stream: str, policy: StreamPolicy) -> None:
    """Delete counted states that every window of the policy has closed over."""
    opens = [
        next_open_tick(db, stream, name, scope)
        for name, window in policy.windows.items()
        for scope in window.scopes
    ]
    if opens and min(opens) > 0:
        db.execute(delete(batch).where(batch.c.stream == stream, batch.c.last < min(opens)))
