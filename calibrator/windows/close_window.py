"""Close a window: charge it, and in the same transaction write the noisy results that may be published.

Everything that leaves the calibrator about a window, its histogram as well as the statistics that Θ is learned
from, is paid for here. The histogram is drawn here; the statistics wait until learning looks again, at this window or a
later one (calibrator/learning/pending_statistics.py). What follows (debiasing, Θ, noise settings) is
post-processing of what was drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from hushmq.broker.contract.messages import Release, StreamPolicy, encode
from hushmq.broker.contract.theta_message import theta_of
from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.ledger.audience_timelines import NANO, Debit, Holder, Spending, issued_noises, spending
from hushmq.calibrator.ledger.high_water_mark import digest, head_of
from hushmq.calibrator.ledger.public_account import Account
from hushmq.calibrator.models.binary.binary_count import CountTwo
from hushmq.calibrator.models.categorical.categorical_count import CountK
from hushmq.calibrator.models.chain_model import AnyNoise, amplified, fingerprint
from hushmq.calibrator.models.histogram import Count, Histogram, nearest_distribution
from hushmq.calibrator.store.tables import batch, closed, ledger, release
from hushmq.pufferfish.window_method import why_not

MOST_IN_A_BATCH = 65_536
"""No batch has more ticks: where one that reaches into a window begins at the earliest."""


# Made once: to put a statement together costs more than to run it.
_MINE = (
    (closed.c.stream == bindparam("stream_"))
    & (closed.c.window == bindparam("window_"))
    & (closed.c.scope == bindparam("scope_"))
)
_CLOSED_THROUGH = select(closed.c.through).where(_MINE)
_CLOSE_THROUGH = update(closed).where(_MINE).values(through=bindparam("through_"))
_STATES = select(batch.c.device, batch.c.noise, batch.c.first, batch.c.last, batch.c.states).where(
    batch.c.stream == bindparam("stream"),
    batch.c.first > bindparam("after"),
    batch.c.first <= bindparam("last"),
    batch.c.last >= bindparam("first"),
)


@dataclass(frozen=True, slots=True)
class Span:
    """One window of a tumbling sequence, for the cohort or for each device."""

    stream: str
    window: str
    first: int
    last: int
    scope: str = "cohort"


@dataclass(frozen=True, slots=True)
class Closed:
    """How closing a window ended: charged with a ledger entry, empty, or refused for want of budget."""

    span: Span
    entry: int | None = None
    loss: float | None = None
    refused: str | None = None


def due(db: Connection, stream: str, policy: StreamPolicy, *, through: int) -> list[Span]:
    """Windows that end at or before tick `through` and hold data, oldest first."""
    spans = []
    for name, window in policy.windows.items():
        last_complete = (through + 1) // window.ticks * window.ticks - 1
        for scope in window.scopes:
            done = _closed_through(db, stream, name, scope)
            after = -1 if done is None else done
            if last_complete <= after:
                continue
            rows = db.execute(
                select(batch.c.first, batch.c.last).where(
                    batch.c.stream == stream,
                    batch.c.first > after - MOST_IN_A_BATCH,
                    batch.c.last > after,
                    batch.c.first <= last_complete,
                )
            )
            numbers = {
                number
                for row in rows
                for number in range(
                    max(row.first, after + 1) // window.ticks,
                    min(row.last, last_complete) // window.ticks + 1,
                )
            }
            spans += [
                Span(stream, name, n * window.ticks, (n + 1) * window.ticks - 1, scope) for n in numbers
            ]
    return sorted(spans, key=lambda span: (span.last, span.first, span.window, span.scope))


def close(
    db: Connection,
    span: Span,
    policy: StreamPolicy,
    *,
    account: Account,
    topics: Topics,
    others: Sequence[Holder] = (),
) -> Closed:
    """Decide, charge and draw, all within the caller's transaction. Publishing comes after its commit.

    A device may carry the noise of any setting ever issued to it, whatever version a batch claims: so the least of
    them decides what the window may spend and what its entry costs. The entry states the cohort's; `others` have
    settings of their own, and must be within ε as well.
    """
    done = _closed_through(db, span.stream, span.window, span.scope)
    if done is not None and done >= span.last:
        return Closed(span)  # by another calibrator, since it was found to be due
    account.follow(db, span.stream)
    count = _counted(db, span, len(policy.states))
    _mark_closed(db, span)
    if not count.devices:
        return Closed(span)
    method = policy.windows[span.window].method
    for theta in (account.theta, *(one.theta for one in others)):
        reason = why_not(method, policy.adversary, theta)
        if reason is not None:  # Θ has widened since the policy was accepted
            return Closed(span, refused=reason)
    noises = issued_noises(db, span.stream)
    cohorts = issued_noises(db, span.stream, of_cohort=True, by=span.last)
    if not cohorts:
        return Closed(span, refused=f"no noise was issued that tick {span.last} can carry")
    whole = spending(
        policy,
        span.window,
        span.scope,
        theta=account.theta,
        noises=cohorts.values(),
        device_tilt=account.device_tilt,
        others=others,
    )
    if not whole.release:
        return Closed(span, refused=f"ε of {policy.epsilon.public:g} leaves less than a nano-nat for it")
    # A setting that changed within the window leaves a little less than its share: then it is tried with less.
    for spent in (whole, whole.lessened()):
        tilt = spent.tilt / NANO
        least = max(cohorts, key=lambda version: amplified(cohorts[version], tilt))
        debit = Debit(span.first, span.last, spent.tilt, cohorts[least])
        loss, refused = _price(debit, policy, account, others)
        if refused is None:
            break
    else:
        return Closed(span, loss=loss, refused=refused)
    entry = _debit(db, span, spent, version=least, noise=cohorts[least])
    if spent.learning:
        count.learn(db, span.stream, tilt=spent.learning)
    draw = Draw(span, policy, spent, account=account, entry=entry, loss=loss)
    if span.scope == "cohort":
        messages = [draw.message("cohort", count.histogram(noises, tilt=spent.release))]
    else:
        messages = [
            draw.message(device, count.histogram(noises, tilt=spent.release, device=device))
            for device in count.devices
        ]
    db.execute(
        insert(release),
        [
            {
                "entry": entry,
                "topic": topics.release(span.stream, span.window, message.scope),
                "payload": encode(message),
                "sent": False,
            }
            for message in messages
        ],
    )
    return Closed(span, entry=entry, loss=loss)


def _price(
    debit: Debit, policy: StreamPolicy, account: Account, others: Sequence[Holder]
) -> tuple[float, str | None]:
    """The loss if the debit were made, and why it may not be; None if it may."""
    budget = policy.epsilon.public
    after = account.price_with(debit)
    if after.epsilon > budget:
        return after.epsilon, f"the loss at tick {after.tick} would be {after.epsilon:.4f} of {budget:g}"
    for one in others:
        most = account.most(one.own, debit)
        if not one.within_public(most, policy):
            found = one.public_loss(most, policy)
            return found, f"the loss of {one.device} would be {found:.4f} of {budget:g}"
    return after.epsilon, None


def unsent(db: Connection) -> list[tuple[int, str, bytes]]:
    """Releases that are charged but not known to be published: entry, topic, bytes."""
    rows = db.execute(
        select(release).where(release.c.sent.is_(False)).order_by(release.c.entry, release.c.topic)
    )
    return [(row.entry, row.topic, row.payload) for row in rows]


def mark_sent(db: Connection, entry: int, topic: str) -> None:
    db.execute(update(release).where(release.c.entry == entry, release.c.topic == topic).values(sent=True))


def prune(db: Connection, stream: str, policy: StreamPolicy) -> None:
    """Forget counted states that every window of the policy has closed over."""
    throughs = [
        _closed_through(db, stream, name, scope)
        for name, window in policy.windows.items()
        for scope in window.scopes
    ]
    known = [through for through in throughs if through is not None]
    if known and len(known) == len(throughs):
        db.execute(delete(batch).where(batch.c.stream == stream, batch.c.last <= min(known)))


def _closed_through(db: Connection, stream: str, window: str, scope: str) -> int | None:
    found: int | None = db.execute(
        _CLOSED_THROUGH, {"stream_": stream, "window_": window, "scope_": scope}
    ).scalar()
    return found


def _counted(db: Connection, span: Span, k: int) -> Count:
    """The window's states, by device and noise version."""
    rows = db.execute(
        _STATES,
        {
            "stream": span.stream,
            "after": span.first - MOST_IN_A_BATCH,
            "first": span.first,
            "last": span.last,
        },
    )
    pieces: dict[tuple[str, int], list[tuple[int, bytes]]] = defaultdict(list)
    for row in rows:
        first, last = max(row.first, span.first), min(row.last, span.last)
        pieces[row.device, row.noise].append((first, row.states[first - row.first : last - row.first + 1]))
    return CountTwo(pieces) if k == 2 else CountK(k, pieces)


def _debit(db: Connection, span: Span, spent: Spending, *, version: int, noise: AnyNoise) -> int:
    """Write the ledger entry: the one line that spends."""
    fields = {
        "stream": span.stream,
        "window": span.window,
        "scope": span.scope,
        "audience": "public",
        "first": span.first,
        "last": span.last,
        "tilt": spent.tilt,
        "noise": version,
        "noise_digest": fingerprint(noise),
        "why": "release and statistics" if spent.learning else "release",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    result = db.execute(insert(ledger), fields | {"digest": digest(head_of(db, span.stream), fields)})
    key = result.inserted_primary_key
    if key is None:
        raise RuntimeError("the database gave the ledger entry no number")
    return int(key[0])


def _mark_closed(db: Connection, span: Span) -> None:
    of_span = {"stream_": span.stream, "window_": span.window, "scope_": span.scope}
    if db.execute(_CLOSE_THROUGH, of_span | {"through_": span.last}).rowcount == 0:
        db.execute(
            insert(closed).values(stream=span.stream, window=span.window, scope=span.scope, through=span.last)
        )


@dataclass(frozen=True, slots=True)
class Draw:
    """What all histograms of one ledger entry share."""

    span: Span
    policy: StreamPolicy
    spent: Spending
    account: Account
    entry: int
    loss: float

    def message(self, scope: str, histogram: Histogram) -> Release:
        """The release of one scope."""
        frequencies = histogram.frequencies
        intervals = [
            (one - off, one + off) for one, off in zip(frequencies, histogram.half_widths, strict=True)
        ]
        if self.policy.windows[self.span.window].proper:
            frequencies = nearest_distribution(frequencies)
            intervals = [(min(1.0, max(0.0, low)), min(1.0, max(0.0, high))) for low, high in intervals]
        return Release(
            stream=self.span.stream,
            window=self.span.window,
            scope=scope,
            first=self.span.first,
            last=self.span.last,
            devices=histogram.devices,
            ticks=histogram.ticks,
            states=self.policy.states,
            counts=histogram.counts,
            frequencies=frequencies,
            standard_errors=histogram.standard_errors,
            intervals=tuple(intervals),
            scale=histogram.scale,
            tilt=self.spent.tilt,
            loss=self.loss,
            budget=self.policy.epsilon.public,
            adversary=self.policy.adversary,
            theta=theta_of(self.account.theta),
            entry=self.entry,
        )
