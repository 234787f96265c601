"""Learning from one window: its statistics are held, and at scheduled windows drawn, tested and used for an update.

Θ only narrows from update to update (calibrator/learning/confidence_sequence.py), so that what was released under an
earlier Θ stays within budget under a later one, until a change test contradicts it
(calibrator/learning/change_test.py).

Statistics are summed by block, the windows from one update to the next. An update uses the last two blocks, three
quarters of all evidence; older statistics are deleted, and the tables do not grow with time. Within a block exact sums
are held (calibrator/learning/pending_statistics.py), and their noise is drawn only when it is needed: for an update,
and for a change test if there is a learned Θ to test.

What is learned, and when, is a function of statistics that were charged to the public account, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sqlalchemy import Connection

from hushmq.calibrator.learning import charged_statistics, learned_theta
from hushmq.calibrator.learning.change_test import change_test
from hushmq.calibrator.learning.charged_statistics import add_to_block, robust_fit_since
from hushmq.calibrator.learning.confidence_sequence import next_theta
from hushmq.calibrator.learning.learned_theta import is_learned, read_learned, write_learned
from hushmq.calibrator.learning.learning_progress import Progress, read_progress, write_progress
from hushmq.calibrator.learning.pending_statistics import draw_pending, drop_pending, hold_statistics
from hushmq.calibrator.learning.update_schedule import (
    KEPT_BLOCKS,
    block_of,
    change_error,
    is_change_test,
    is_update,
    misfit_error,
    outlier_error,
)
from hushmq.calibrator.models.chain_model import AnyModel
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.pufferfish.protocols import Region

Outcome = Literal["held", "tested", "updated", "restarted"]


@dataclass(frozen=True, slots=True)
class ThetaUpdate:
    """What learning from one window did.

    `held`: nothing was drawn. `tested`: noise was drawn and a change test made, or an update for which there was too
    little evidence. `updated`: the learned Θ was updated. `restarted`: the cohort has changed, all that was learned
    is dropped. The learned Θ of `reset_devices` was contradicted and dropped. Those `left_out`, with the regions that
    hold their chains, are clearly outside of the cohort's Θ or apart from the others: no window shall count them.
    """

    outcome: Outcome
    reset_devices: frozenset[str] = frozenset()
    left_out: Mapping[str, Region] = field(default_factory=dict)

    @property
    def changed_theta(self) -> bool:
        """Whether the learned Θ of the cohort or of a device may be another one than before."""
        return self.outcome in {"updated", "restarted"} or bool(self.reset_devices)


@dataclass(frozen=True, slots=True)
class _Step:
    """Where learning stands within one window, after the change test or the update."""

    progress: Progress
    update: ThetaUpdate


def learn_window(
    db: Connection, stream: str, model: AnyModel, window: Iterable[ExactStatistics], *, tilt: int
) -> ThetaUpdate:
    """Learn from one window's statistics, within the transaction that charges it `tilt` nano-nats for them."""
    before = read_progress(db, stream)
    now = replace(before, windows=before.windows + 1)
    hold_statistics(db, stream, window, tilt=tilt)
    if not (is_update(now.windows) or (is_change_test(now.windows) and is_learned(db, stream))):
        write_progress(db, stream, now)
        return ThetaUpdate("held")
    block = block_of(now.windows)
    add_to_block(db, stream, block, draw_pending(db, stream, model))
    step = _test(db, stream, model, block, now)
    if is_update(now.windows) and step.update.outcome != "restarted":
        step = _update(db, stream, model, block, step)
    write_progress(db, stream, step.progress)
    return step.update


def _test(db: Connection, stream: str, model: AnyModel, block: int, now: Progress) -> _Step:
    """Test the statistics since the last update against the learned Θ, and drop what they contradict."""
    learned = read_learned(db, stream, model)
    recent = (
        None
        if learned.cohort is None
        else robust_fit_since(db, stream, model, since=block, error=change_error(block))
    )
    if learned.cohort is None or recent is None:
        return _Step(now, ThetaUpdate("tested"))
    verdict = change_test(learned, recent, block)
    if verdict.restart:
        return _restart(db, stream, now)
    if not verdict.changed:
        return _Step(now, ThetaUpdate("tested"))
    _reset(db, stream, verdict.changed)
    update = ThetaUpdate("tested", verdict.changed, verdict.outside)
    return _Step(replace(now, contradictions=now.contradictions + 1), update)


def _update(db: Connection, stream: str, model: AnyModel, block: int, step: _Step) -> _Step:
    """Update the learned Θ and the misfit with the statistics of the last blocks."""
    now, reset = step.progress, step.update.reset_devices
    robust = robust_fit_since(db, stream, model, since=block - KEPT_BLOCKS + 1, error=outlier_error(block))
    if robust is None:
        return step
    fitted = robust.fitted
    _reset(db, stream, robust.outside)
    found = next_theta(read_learned(db, stream, model), fitted, block)
    if found is None:
        return _restart(db, stream, now)
    _reset(db, stream, found.contradicted)
    write_learned(db, stream, found.learned)
    charged_statistics.drop_before(db, stream, block - KEPT_BLOCKS + 2)
    misfit = fitted.misfit(misfit_error(block))
    progress = replace(
        now,
        persistent_shares=misfit.persistent_shares,
        undetectable=min(now.undetectable, misfit.undetectable),
        contradictions=now.contradictions + bool(found.contradicted or robust.outside),
    )
    left_out = {**step.update.left_out, **robust.outside}
    return _Step(progress, ThetaUpdate("updated", reset | found.contradicted | left_out.keys(), left_out))


def _restart(db: Connection, stream: str, now: Progress) -> _Step:
    """Drop the learned Θ and all statistics: the next window is the first of a new sequence."""
    learned_theta.drop_stream(db, stream)
    charged_statistics.drop_stream(db, stream)
    return _Step(Progress(contradictions=now.contradictions + 1), ThetaUpdate("restarted"))


def _reset(db: Connection, stream: str, devices: Iterable[str]) -> None:
    """Drop the learned Θ of these devices, and their statistics."""
    learned_theta.drop_devices(db, stream, devices)
    charged_statistics.drop_devices(db, stream, devices)


def forget_stream(db: Connection, stream: str) -> None:
    """Drop all that was learned of a stream and all evidence of it, drawn or not: a new epoch learns anew."""
    before = read_progress(db, stream)
    learned_theta.drop_stream(db, stream)
    charged_statistics.drop_stream(db, stream)
    drop_pending(db, stream)
    write_progress(db, stream, Progress(contradictions=before.contradictions))
