"""How far each tumbling sequence of windows is closed, and which counted states no window needs any more."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.store.tables import DEVICES, batch, closed, filled, roster

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


def sequences(policy: StreamPolicy) -> Iterator[tuple[str, str]]:
    """The tumbling sequences of a stream: each window of its policy, once for each of its scopes."""
    for name, window in policy.windows.items():
        for scope in window.scopes:
            yield name, scope


def begin_sequences(db: Connection, stream: str, policy: StreamPolicy, *, at: int) -> None:
    """Let the sequences that have not begun yet do so: at a tick, or where the other sequences are closed up to.

    So that a window which a later policy adds is about nothing that was pruned.
    """
    begun = {
        (row.window, row.scope): int(row.through)
        for row in db.execute(select(closed).where(closed.c.stream == stream, closed.c.scope != DEVICES))
    }
    for name, scope in sequences(policy):
        if (name, scope) not in begun:
            mark_closed(db, stream, name, scope, through=max(begun.values(), default=at - 1))


def resume_sequences(
    db: Connection, stream: str, before: StreamPolicy | None, policy: StreamPolicy, *, now: int
) -> None:
    """Sequences that the policy before did not have go on where the others are, or now if there were none.

    A window that comes back under its old name is not closed for the time in which it was away.
    """
    mine = (closed.c.stream == stream) & (closed.c.scope != DEVICES)
    others = db.execute(select(func.max(closed.c.through)).where(mine)).scalar()
    if others is None:
        return  # it begins with the first device
    active = set() if before is None else set(sequences(before))
    through = int(others) if active else max(int(others), now - 1)
    for name, scope in sequences(policy):
        if (name, scope) not in active:
            mark_closed(db, stream, name, scope, through=through)


def delete_closed_states(db: Connection, stream: str, policy: StreamPolicy) -> None:
    """Delete counted states, stand-ins and memberships that every window of the policy has closed over."""
    opens = [next_open_tick(db, stream, name, scope) for name, scope in sequences(policy)]
    if not opens or min(opens) <= 0:
        return
    for table in (batch, filled):
        db.execute(delete(table).where(table.c.stream == stream, table.c.last < min(opens)))
    over = (roster.c.stream == stream) & roster.c.left_out.is_(None) & (roster.c.until <= min(opens))
    db.execute(delete(roster).where(over))


def delete_unused_states(db: Connection, stream: str, *, before: int) -> None:
    """Delete counted states and stand-ins of earlier ticks of a stream that has no windows: nothing will count them."""
    for table in (batch, filled):
        db.execute(delete(table).where(table.c.stream == stream, table.c.last < before))
