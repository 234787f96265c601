"""The third step of closing a window: noisy histograms, paid for by its ledger entry, and their bytes.

What follows from a drawn histogram (debiasing, frequencies, intervals) is post-processing and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, insert

from hushmq.broker.contract.messages import Release, encode
from hushmq.broker.contract.query_message import of_window
from hushmq.broker.contract.release_answers import wanted_rows
from hushmq.broker.contract.release_times import release_times
from hushmq.broker.contract.theta_message import ThetaMessage
from hushmq.broker.contract.topics import COHORT, Topics
from hushmq.calibrator.ledger.charge_window import Charge
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.models.histogram import Histogram
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store.tables import release
from hushmq.calibrator.windows.answer_queries import query_tilts, with_answers
from hushmq.calibrator.windows.count_window import CountedWindow
from hushmq.pufferfish.inference.nearest_distribution import nearest_distribution
from hushmq.pufferfish.protocols import Noise

if TYPE_CHECKING:
    from hushmq.calibrator.models.pair_count import DrawnPairs, PairCount


def draw_releases(
    window: CountedWindow,
    span: Span,
    accounts: LiveAccounts,
    charge: Charge,
    noises: Mapping[int, Noise],
) -> list[Release]:
    """Draw the histogram of the cohort, or one for each device; `noises` are those of the versions counted.

    Queries with noise of their own have their shares of the entry's tilt, the histogram has what they leave.
    """
    policy, count = accounts.policy, window.count
    theta = model_of(policy).theta_message(accounts.theta)
    own = query_tilts(policy, span.window, charge.spent.release)
    tilt = charge.spent.release - sum(own.values())
    rows = wanted_rows(of_window(policy.queries, span.window), len(policy.states))
    if span.scope == COHORT:
        found = {COHORT: count.histogram(noises, tilt=tilt, rows=rows)}
    else:
        found = count.histograms(noises, tilt=tilt, rows=rows)
    releases = []
    for scope, one in found.items():
        # What is published of a stride stands for all of its ticks.
        histogram = one.beside(model_of(policy).unseen_variance(accounts.theta, one.ticks))
        message = _message(scope, histogram, span, accounts, charge, theta)
        drawn = {name: _pairs(window.pairs, scope, noises, tilt=each) for name, each in own.items()}
        linear = dict(zip(rows, histogram.sums, strict=True))
        releases.append(with_answers(message, policy, linear, drawn))
    return releases


def _pairs(
    counted: PairCount | None, scope: str, noises: Mapping[int, Noise], *, tilt: int
) -> DrawnPairs | None:
    """The noisy pairs of the cohort or of one device; None where nothing can be paid or counted."""
    if counted is None or not tilt:
        return None
    return counted.draw(noises, tilt=tilt, device=None if scope == COHORT else scope)


def store_releases(db: Connection, releases: Sequence[Release], charge: Charge, topics: Topics) -> None:
    """Store the bytes to publish, in the transaction that charged them."""
    db.execute(
        insert(release),
        [
            {
                "entry": charge.entry,
                "topic": topics.release(message.stream, message.window, message.scope),
                "payload": encode(message),
                "sent": False,
            }
            for message in releases
        ],
    )


def _message(
    scope: str,
    histogram: Histogram,
    span: Span,
    accounts: LiveAccounts,
    charge: Charge,
    theta: ThetaMessage,
) -> Release:
    policy = accounts.policy
    frequencies, unbiased = histogram.frequencies, None
    intervals = [(one - off, one + off) for one, off in zip(frequencies, histogram.half_widths, strict=True)]
    if policy.windows[span.window].proper:
        frequencies, unbiased = nearest_distribution(frequencies), frequencies
        intervals = [(min(1.0, max(0.0, low)), min(1.0, max(0.0, high))) for low, high in intervals]
    return Release(
        stream=span.stream,
        window=span.window,
        scope=scope,
        first=span.first,
        last=span.last,
        devices=histogram.devices,
        ticks=histogram.ticks,
        states=policy.states,
        counts=histogram.counts,
        frequencies=frequencies,
        standard_errors=histogram.standard_errors,
        intervals=tuple(intervals),
        scale=histogram.scale,
        tilt=charge.spent.tilt,
        loss=charge.loss,
        budget=policy.epsilon.public,
        adversary=policy.adversary,
        theta=theta,
        entry=charge.entry,
        account=None if accounts.joint is None else accounts.joint.shared_by,
        stride=policy.stride,
        unbiased=unbiased,
        bias=histogram.bias,
        **release_times(span.first, span.last, policy.stride_ms),
    )
