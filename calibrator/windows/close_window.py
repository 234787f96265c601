"""Close one window: charge, count, draw, learn, in one transaction.

Everything that leaves the calibrator about a window, its histogram as well as the statistics that Θ is learned from, is
charged here. The debit, the noisy histograms and the learned Θ are committed together or not at all: after a crash
nothing was drawn that is not charged, and nothing is drawn twice. The statistics are drawn at the next theta update or
change test, with this window or a later one (calibrator/learning/pending_statistics.py).

After the commit a new Θ leads to new noise settings (calibrator/settings/), and the stored bytes are published
(calibrator/publish/) until the broker has acknowledged them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from hushmq.broker.contract.topics import Topics
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.learning.learn_window import ThetaUpdate, learn_window
from hushmq.calibrator.learning.stream_theta import beyond_start
from hushmq.calibrator.ledger.charge_window import Charge, ChargeRefused, charge_window
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.roster.left_out import leave_out
from hushmq.calibrator.roster.roster_members import members, read_roster
from hushmq.calibrator.roster.silence import end_silent, silence_limit
from hushmq.calibrator.windows.answer_queries import with_sliding
from hushmq.calibrator.windows.closed_windows import mark_closed, next_open_tick
from hushmq.calibrator.windows.count_window import count_window
from hushmq.calibrator.windows.draw_release import draw_releases, store_releases
from hushmq.calibrator.windows.smooth_releases import smooth_releases
from hushmq.pufferfish.protocols import Region


@dataclass(frozen=True, slots=True)
class WindowOutcome:
    """How closing a window ended: charged, refused, or neither because no device was a member."""

    span: Span
    charge: Charge | None = None
    refusal: ChargeRefused | None = None
    learned: ThetaUpdate | None = None
    """What learning did; None where the window is not charged for statistics."""
    filled: int = 0
    """Ticks that did not arrive and were filled. Nothing public depends on it."""
    left_out: tuple[str, ...] = ()
    """Devices that no window counts from now on."""
    silent: tuple[str, ...] = ()
    """Devices that left the roster because nothing was counted of them for long."""

    @property
    def theta_updated(self) -> bool:
        """Whether the learned Θ of the stream or of one of its devices may have changed."""
        return self.learned is not None and self.learned.changed_theta


def close_window(
    db: Connection,
    span: Span,
    accounts: LiveAccounts,
    topics: Topics,
    limits: RosterSection | None = None,
) -> WindowOutcome:
    """Take every step within the caller's transaction; what is stored is published after its commit."""
    if next_open_tick(db, span.stream, span.window, span.scope) > span.last:
        return WindowOutcome(span)  # by another calibrator, since it was found to be due
    accounts.follow(db)
    mark_closed(db, span.stream, span.window, span.scope, through=span.last)
    counted_devices = members(read_roster(db, span.stream), span)
    if not counted_devices:
        return WindowOutcome(span)
    limit = silence_limit(accounts.policy, limits or RosterSection())
    charge = charge_window(db, span, accounts)
    if isinstance(charge, ChargeRefused):
        gone = end_silent(db, span, counted_devices, limit=limit)
        return WindowOutcome(span, refusal=charge, silent=tuple(gone))
    window = count_window(
        db, span, accounts.policy, counted_devices, meaning_since=accounts.own_epochs.meaning_since
    )
    gone = end_silent(db, span, window.silent, limit=limit)
    releases = draw_releases(window, span, accounts, charge, issued_noises(db, span.stream))
    since = accounts.own_epochs.current.first
    smoothed = smooth_releases(db, span, releases, topics, since=since)
    smoothed = with_sliding(db, span, smoothed, accounts.policy, topics, since=since)
    store_releases(db, smoothed, charge, topics)
    learned, odd = None, dict[str, Region]()
    if charge.spent.learning:
        learned = learn_window(
            db, span.stream, model_of(accounts.policy), window.evidence(), tilt=charge.spent.learning
        )
        odd = accounts.with_groups({**learned.left_out, **_beyond_start(db, span, accounts, learned)})
        for stream in accounts.sharing:
            leave_out(db, stream, odd, since=span.last + 1)
    return WindowOutcome(
        span,
        charge=charge,
        learned=learned,
        filled=window.filled,
        left_out=tuple(sorted(odd)),
        silent=tuple(gone),
    )


def _beyond_start(
    db: Connection, span: Span, accounts: LiveAccounts, learned: ThetaUpdate
) -> Mapping[str, Region]:
    """Devices that learning has put outside of what the policy asserts."""
    return beyond_start(db, span.stream, accounts.policy) if learned.changed_theta else {}
