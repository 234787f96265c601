"""Answers to a policy's queries about a window: what follows from its releases, and what was drawn beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic_core import from_json
from sqlalchemy import Connection, bindparam, select

from hushmq.broker.contract.answer_message import AnyAnswer, TransitionsAnswer
from hushmq.broker.contract.messages import Release
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.query_message import SlidingQuery, TransitionsQuery, of_window
from hushmq.broker.contract.release_answers import Linear, Row, SharesBefore, answer, sliding
from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import ledger, release

if TYPE_CHECKING:
    from hushmq.calibrator.models.pair_count import DrawnPairs

_EARLIER = (
    select(release.c.payload)
    .join(ledger, ledger.c.id == release.c.entry)
    .where(
        release.c.topic == bindparam("topic_"),
        ledger.c.first >= bindparam("since_"),
        ledger.c.first < bindparam("first_"),
    )
    .order_by(ledger.c.first.desc())
    .limit(bindparam("most_"))
)


def query_tilts(policy: StreamPolicy, window: str, tilt: int) -> dict[str, int]:
    """What of a release's tilt each query has for noise of its own; the histogram has the rest."""
    return {
        name: int(one.share * tilt)
        for name, one in of_window(policy.queries, window).items()
        if isinstance(one, TransitionsQuery)
    }


def with_answers(
    message: Release,
    policy: StreamPolicy,
    linear: Mapping[Row, Linear],
    drawn: Mapping[str, DrawnPairs | None],
) -> Release:
    """A release with the answers that need nothing but it, and those with noise of their own."""
    queries = of_window(policy.queries, message.window)
    if not queries:
        return message
    shares = message.unbiased or message.frequencies
    found: dict[str, AnyAnswer | None] = {
        name: answer(one, policy, message.theta, shares, message.intervals, linear)
        for name, one in queries.items()
    }
    found |= {name: None if one is None else _transitions(one) for name, one in drawn.items()}
    answers = {name: found[name] for name in queries if found[name] is not None}
    return message.model_copy(update={"answers": answers})


def with_sliding(
    db: Connection,
    span: Span,
    releases: Iterable[Release],
    policy: StreamPolicy,
    topics: Topics,
    *,
    since: int,
) -> list[Release]:
    """The window's releases with the sliding windows that end with it, from the stored bytes of earlier releases.

    Windows that began before tick `since` were of another epoch.
    """
    queries = {
        name: one
        for name, one in of_window(policy.queries, span.window).items()
        if isinstance(one, SlidingQuery)
    }
    if not queries:
        return list(releases)
    most = max(one.windows for one in queries.values()) - 1
    found = []
    for message in releases:
        where = {
            "topic_": topics.release(message.stream, message.window, message.scope),
            "since_": since,
            "first_": span.first,
            "most_": most,
        }
        earlier = [_before(from_json(row.payload)) for row in db.execute(_EARLIER, where)]
        newest = _before(message.model_dump(include=set(_USED)))
        answers = {name: sliding(newest, earlier, one.windows) for name, one in queries.items()}
        found.append(message.model_copy(update={"answers": message.answers | answers}))
    return found


_USED = ("first", "last", "unbiased", "frequencies", "standard_errors", "bias")


def _before(tree: Mapping[str, object]) -> SharesBefore:
    shares: Sequence[float] = tree.get("unbiased") or tree["frequencies"]  # type: ignore[assignment]
    bias: float = tree.get("bias", 0.0)  # type: ignore[assignment]
    return SharesBefore(tree["first"], tree["last"], shares, tree["standard_errors"], bias)  # type: ignore[arg-type]


def _transitions(found: DrawnPairs) -> TransitionsAnswer:
    return TransitionsAnswer(
        kind="transitions",
        pairs=found.pairs,
        counts=tuple(map(tuple, found.counts.tolist())),
        shares=tuple(map(tuple, found.shares.tolist())),
        standard_errors=tuple(map(tuple, found.standard_errors.tolist())),
        half_widths=tuple(map(tuple, found.half_widths.tolist())),
        scale=found.scale,
    )
