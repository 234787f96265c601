"""Close a window: charge it, and in the same transaction write the noisy results that may be published.

Everything that leaves the calibrator about a window, its histogram as well as the statistics that Θ is learned
from, is drawn here and paid for here. What follows (debiasing, Θ, noise settings) is post-processing of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, delete, insert, select, update

from broker.messages import Release, StreamPolicy, encode
from broker.theta import theta_of
from broker.topics import Topics
from calibrator import learn
from calibrator.account import Account
from calibrator.charge import (
    NANO,
    Debit,
    Holder,
    Spending,
    scale_for,
    spending,
)
from calibrator.mark import digest, head_of
from calibrator.noise import noisy, variance
from calibrator.statistics import BANDS, COARSENESS, WIDTHS, Sums, bands_within, runs, sensitivity
from calibrator.store import batch, closed, ledger, release, setting
from pufferfish.amplification import amplified
from pufferfish.binary import Noise
from pufferfish.interval import half_width
from pufferfish.method import why_not

MOST_IN_A_BATCH = 65_536
"""No batch has more ticks: where one that reaches into a window begins at the earliest."""


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
    sums = _sums(db, span)
    _mark_closed(db, span)
    if not sums:
        return Closed(span)
    method = policy.windows[span.window].method
    for theta in (account.theta, *(one.theta for one in others)):
        reason = why_not(method, policy.adversary, theta)
        if reason is not None:  # Θ has widened since the policy was accepted
            return Closed(span, refused=reason)
    noises = issued_noises(db, span.stream)
    cohorts = issued_noises(db, span.stream, of_cohort=True, by=span.last).values()
    whole = spending(
        policy,
        span.window,
        span.scope,
        theta=account.theta,
        noises=cohorts,
        device_tilt=account.device_tilt,
        others=others,
    )
    if not whole.release:
        return Closed(span, refused=f"ε of {policy.epsilon.public:g} leaves less than a nano-nat for it")
    # A setting that changed within the window leaves a little less than its share: then it is tried with less.
    for spent in (whole, whole.lessened()):
        least = max(cohorts, key=lambda noise: amplified(noise, spent.tilt / NANO))
        loss, refused = _price(Debit(span.first, span.last, spent.tilt, least), policy, account, others)
        if refused is None:
            break
    else:
        return Closed(span, loss=loss, refused=refused)
    entry = _debit(db, span, spent, least)
    if spent.learning:
        ticks = policy.windows[span.window].ticks
        _write_statistics(db, span, sums, ticks=ticks, tilt=spent.learning)
    draw = Draw(span, policy, spent, account=account, entry=entry, loss=loss)
    if span.scope == "cohort":
        messages = [draw.histogram("cohort", sums, noises)]
    else:
        messages = [
            draw.histogram(device, {key: one for key, one in sums.items() if key[0] == device}, noises)
            for device in sorted({device for device, _ in sums})
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
        found = one.public_loss(account.most(one.own, debit), policy)
        if found > budget:
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


def issued_noises(
    db: Connection, stream: str, *, of_cohort: bool = False, by: int | None = None
) -> Mapping[int, Noise]:
    """The noise of every setting for the stream, by version: of those for all devices, that a tick `by` can carry."""
    mine = setting.c.stream == stream
    if of_cohort:
        mine &= setting.c.device.is_(None)
    if by is not None:
        mine &= setting.c.issued <= by
    rows = db.execute(select(setting.c.version, setting.c.rho0, setting.c.rho1).where(mine))
    return {row.version: Noise(row.rho0, row.rho1) for row in rows}


def _closed_through(db: Connection, stream: str, window: str, scope: str) -> int | None:
    found: int | None = db.execute(
        select(closed.c.through).where(
            closed.c.stream == stream, closed.c.window == window, closed.c.scope == scope
        )
    ).scalar()
    return found


def _sums(db: Connection, span: Span) -> Mapping[tuple[str, int], Sums]:
    """Sums over the window, by device and noise version."""
    rows = db.execute(
        select(batch).where(
            batch.c.stream == span.stream,
            batch.c.first > span.first - MOST_IN_A_BATCH,
            batch.c.first <= span.last,
            batch.c.last >= span.first,
        )
    )
    pieces: dict[tuple[str, int], list[tuple[int, bytes]]] = defaultdict(list)
    for row in rows:
        first, last = max(row.first, span.first), min(row.last, span.last)
        pieces[row.device, row.noise].append((first, row.states[first - row.first : last - row.first + 1]))
    sums: dict[tuple[str, int], Sums] = {}
    for key, found in pieces.items():
        sums[key] = Sums()
        for run in runs(sorted(found)):
            sums[key].add(run)
    return sums


def _debit(db: Connection, span: Span, spent: Spending, least: Noise) -> int:
    """Write the ledger entry: the one line that spends."""
    fields = {
        "stream": span.stream,
        "window": span.window,
        "scope": span.scope,
        "audience": "public",
        "first": span.first,
        "last": span.last,
        "tilt": spent.tilt,
        "rho0": least.rho0,
        "rho1": least.rho1,
        "why": "release and statistics" if spent.learning else "release",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    result = db.execute(insert(ledger).values(**fields, digest=digest(head_of(db, span.stream), fields)))
    key = result.inserted_primary_key
    if key is None:
        raise RuntimeError("the database gave the ledger entry no number")
    return int(key[0])


def _mark_closed(db: Connection, span: Span) -> None:
    mine = (
        (closed.c.stream == span.stream) & (closed.c.window == span.window) & (closed.c.scope == span.scope)
    )
    if db.execute(update(closed).where(mine).values(through=span.last)).rowcount == 0:
        db.execute(
            insert(closed).values(stream=span.stream, window=span.window, scope=span.scope, through=span.last)
        )


def _write_statistics(
    db: Connection, span: Span, sums: Mapping[tuple[str, int], Sums], *, ticks: int, tilt: int
) -> None:
    """Add the charged noise, a band's as much wider as the band is, and hand the statistics to learning."""
    scale = scale_for(sensitivity(ticks), tilt)
    members = list(sums.items())
    ones = noisy([one.ones for _, one in members], scale=scale)
    changes = [
        noisy([one.changes[band] for _, one in members], scale=scale * WIDTHS[band] * COARSENESS[band])
        if band < bands_within(ticks)
        else [0] * len(members)
        for band in range(len(BANDS))
    ]
    learn.note(
        db,
        span.stream,
        [
            learn.Statistic(
                device, version, one.ticks, ones[index], one.starts, [each[index] for each in changes]
            )
            for index, ((device, version), one) in enumerate(members)
        ],
        variance=variance(scale),
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

    def histogram(
        self, scope: str, sums: Mapping[tuple[str, int], Sums], noises: Mapping[int, Noise]
    ) -> Release:
        """The noisy count of one scope and its debiased frequencies.

        Each noise version's states are counted apart, with noise of their own: the counts are of disjoint states,
        so one state still costs 1/scale, and so it does where each device has a histogram of its own. The second
        bin is the rest of a total that is no secret.
        """
        scale = scale_for(1, self.spent.release)
        versions = sorted({version for _, version in sums})
        ticks = {v: sum(one.ticks for (_, version), one in sums.items() if version == v) for v in versions}
        ones = noisy(
            [sum(one.ones for (_, version), one in sums.items() if version == v) for v in versions],
            scale=scale,
        )
        total = sum(ticks.values())
        # x̂ = Σ (ones − n·ρ0)/s, with variance Σ (n·p(1−p) + noise)/s²
        estimate = sampling = drawn = 0.0
        for version, count in zip(versions, ones, strict=True):
            noise, n = noises[version], ticks[version]
            s = 1 - noise.rho0 - noise.rho1
            p = min(1.0, max(0.0, count / n))
            estimate += (count - n * noise.rho0) / s
            sampling += n * p * (1 - p) / s**2
            drawn += variance(scale) / s**2
        frequency, error = estimate / total, math.sqrt(sampling + drawn) / total
        off = half_width(sampling, drawn) / total
        frequencies: Sequence[float] = (1 - frequency, frequency)
        intervals = [(one - off, one + off) for one in frequencies]
        if self.policy.windows[self.span.window].proper:
            frequencies = nearest_distribution(frequencies)
            intervals = [(min(1.0, max(0.0, low)), min(1.0, max(0.0, high))) for low, high in intervals]
        return Release(
            stream=self.span.stream,
            window=self.span.window,
            scope=scope,
            first=self.span.first,
            last=self.span.last,
            devices=len({device for device, _ in sums}),
            ticks=total,
            states=self.policy.states,
            counts=(total - sum(ones), sum(ones)),
            frequencies=tuple(frequencies),
            standard_errors=(error, error),
            intervals=tuple(intervals),
            scale=scale,
            tilt=self.spent.tilt,
            loss=self.loss,
            budget=self.policy.epsilon.public,
            adversary=self.policy.adversary,
            theta=theta_of(self.account.theta),
            entry=self.entry,
        )


def nearest_distribution(frequencies: Iterable[float]) -> tuple[float, ...]:
    """The nearest frequencies that are not negative and sum to one (projection on the simplex).

    max(f − c, 0), with the one c that makes the sum 1: with the m largest f kept, c = (Σ f − 1)/m.
    """
    values = list(frequencies)
    kept = shift = 0.0
    for count, value in enumerate(sorted(values, reverse=True), start=1):
        kept += value
        if value - (kept - 1) / count > 0:
            shift = (kept - 1) / count
    return tuple(max(value - shift, 0.0) for value in values)
