"""Θ after all the evidence so far: a confidence sequence over ever later looks at the charged statistics.

Looking often and keeping the best look would claim too much. So look k comes after FIRST_LOOK·2^(k−1) windows and
may be wrong with probability (1−confidence)/2^k: with the given confidence ALL looks are right at once, and so is
their intersection. Θ only narrows, and what was released under an earlier Θ stays within budget under a later one.

A device is held by two regions of each look: the cohort's, which holds any device, and its own. Either may be wrong
with half the look's probability, so both hold together, and the device's Θ is their intersection: never wider than
the cohort's, under whose settings it began. Only one whose own region does not meet the cohort's has its own alone.

Statistics are summed by block, the windows from one look to the next. A look weighs the last two blocks, three
quarters of all evidence; what is older is forgotten, and the tables do not grow with time. Within a block exact sums
wait (calibrator/learning/pending_statistics.py), and noise is drawn only when there is something to look at: at a
look, and at the checks 1, 2, 4, … windows after one, if anything is believed that a check could contradict.

Looks and checks hold the evidence since the last look against what is believed. Where it puts the cohort's centre
elsewhere beyond doubt, or several devices outside the cohort's Θ, the data has changed: all that was believed and all
evidence is dropped, for it is not known how much of it is older than the change; Θ is the policy's start again, and
a new sequence begins. Where it contradicts what is believed of single devices, only they are forgotten: they have the
cohort's Θ, like a newcomer, or where the evidence contradicts that too, the policy's start.

What is learned, and when, is a function of statistics that were charged to the public account, and of nothing else.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Protocol, TypeVar, overload

from sqlalchemy import Connection, Row, Table, delete, insert, select, update

from hushmq.broker.contract.messages import StreamPolicy
from hushmq.broker.contract.theta_message import BinaryTheta, IntervalTheta
from hushmq.calibrator.learning import pending_statistics as pending
from hushmq.calibrator.learning.pending_statistics import Counted, Drawn, Mechanism
from hushmq.calibrator.models.binary.binary_misfit import Misfit
from hushmq.calibrator.models.binary.binary_region import CONFIDENCE
from hushmq.calibrator.models.binary_model import TWO, Two
from hushmq.calibrator.models.categorical_model import MORE, More
from hushmq.calibrator.store.tables import learning
from hushmq.pufferfish.binary.stream_loss import Box
from hushmq.pufferfish.categorical.transition_intervals import Class

FIRST_LOOK = 4
"""Windows before the first look."""
CHANGE_ERROR = 0.001
"""The probability that chance is ever taken for a change, over all looks, checks and devices, while Θ is right."""
MANY = 0.1
"""More than this share of the devices outside the cohort's Θ, and more than one, contradict it."""
MISFIT_ERROR = 0.001
"""The probability that chains of first order are ever taken for a misfit, over all looks and bands of lags.

Small, because covering what is none may stop a cohort's releases for good."""
HIDDEN = 0.1
"""Θ is not narrowed before an excess of this much correlation over long lags would have been seen."""
KEPT_BLOCKS = 2
COHORT = ""
"""Stands for any device of the cohort."""

Covering = Literal["cover", "report"]


R = TypeVar("R", Box, Class)
"""A region of chains: a box for two states, a class of intervals for more."""
R_co = TypeVar("R_co", Box, Class, covariant=True)


class Found(Protocol[R_co]):
    """What a fit says of the cohort and of each device."""

    @property
    def size(self) -> int: ...
    def cohort(self, confidence: float) -> R_co: ...
    def centre(self, confidence: float) -> R_co: ...
    def devices(self, confidence: float) -> Mapping[str, R_co]: ...
    def misfit(self, error: float) -> Misfit: ...


class Learner(Mechanism, Protocol[R]):
    """How statistics and beliefs of one kind of stream are kept, and fitted."""

    statistic: Table
    belief: Table

    def add(self, db: Connection, stream: str, block: int, drawn: Iterable[Drawn]) -> None: ...
    def found(self, db: Connection, stream: str, *, since: int) -> Found[R] | None: ...
    def read(self, row: Row[tuple[object, ...]]) -> R: ...
    def written(self, believed: R) -> dict[str, object]: ...
    def slowed(self, theta: R, lasting: Sequence[float]) -> R: ...
    def with_doubt(self, believed: R) -> R: ...
    def anything(self, like: R) -> R: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far learning has come: windows since the last contradiction, the misfit, contradictions so far.

    `lasting` is the share to cover in each band of lags, `hidden` what the evidence would not show at long lags.
    """

    windows: int = 0
    lasting: tuple[float, ...] = ()
    hidden: float = 1.0
    contradictions: int = 0

    @property
    def at_look(self) -> Progress:
        """As it was at the last look, or contradiction since: what is believed changes at these alone."""
        return replace(self, windows=last_look(self.windows))

    def told(self, misfit: Covering) -> Progress:
        """What is made of it: where the policy has a misfit only reported, there is none to cover or to fear."""
        return self if misfit == "cover" else replace(self, lasting=(), hidden=0.0)


@overload
def learner_of(start: Box) -> Two: ...
@overload
def learner_of(start: Class) -> More: ...
def learner_of(start: Box | Class) -> Two | More:
    """Who learns about streams whose Θ is of this kind."""
    return TWO if isinstance(start, Box) else MORE


def learned(
    db: Connection, stream: str, *, start: R, floor: R, misfit: Covering = "cover", device: str = COHORT
) -> R:
    """Θ for a stream: the start narrowed by the looks, the misfit covered, and never narrower than the floor.

    The start is what the policy asserts of the chains at all lags. What the looks say, and what the misfit makes of
    it, is cut to the start, and widens it only where it excludes it beyond doubt: Θ then holds both. A device nothing
    is known of has the cohort's Θ. As long as much of a misfit could be hidden, nothing is narrowed: found later, it
    would put what was released in the meantime over budget.
    """
    learner = learner_of(start)
    belief = learner.belief
    row = db.execute(select(belief).where(belief.c.stream == stream, belief.c.device == device)).first()
    if row is None and device != COHORT:
        return learned(db, stream, start=start, floor=floor, misfit=misfit)
    now = progress(db, stream).told(misfit)
    return _theta(None if row is None else learner.read(row), start=start, floor=floor, now=now)


def learned_devices(
    db: Connection, stream: str, *, start: R, floor: R, misfit: Covering = "cover"
) -> dict[str, R]:
    """Θ of every device with evidence of its own, shrunk towards the cohort's as far as that evidence is thin."""
    learner = learner_of(start)
    belief = learner.belief
    now = progress(db, stream).told(misfit)
    rows = db.execute(select(belief).where(belief.c.stream == stream, belief.c.device != COHORT))
    return {row.device: _theta(learner.read(row), start=start, floor=floor, now=now) for row in rows}


def believed(db: Connection, stream: str, policy: StreamPolicy) -> Box | Class:
    """Θ of a stream as its policy would have it learned."""
    start, floor = policy.theta.start, policy.theta.floor
    if isinstance(start, BinaryTheta) and isinstance(floor, BinaryTheta):
        return learned(db, stream, start=start.chains, floor=floor.chains, misfit=policy.misfit)
    if isinstance(start, IntervalTheta) and isinstance(floor, IntervalTheta):
        return learned(db, stream, start=start.chains, floor=floor.chains, misfit=policy.misfit)
    raise RuntimeError("start and floor are for the same number of states")


def believed_of_devices(db: Connection, stream: str, policy: StreamPolicy) -> Mapping[str, Box | Class]:
    """Θ of every device with evidence of its own, as the policy would have it learned."""
    start, floor = policy.theta.start, policy.theta.floor
    if isinstance(start, BinaryTheta) and isinstance(floor, BinaryTheta):
        return learned_devices(db, stream, start=start.chains, floor=floor.chains, misfit=policy.misfit)
    if isinstance(start, IntervalTheta) and isinstance(floor, IntervalTheta):
        return learned_devices(db, stream, start=start.chains, floor=floor.chains, misfit=policy.misfit)
    raise RuntimeError("start and floor are for the same number of states")


def misfit_of_stream(db: Connection, stream: str, policy: StreamPolicy) -> Misfit | None:
    """The misfit in the evidence kept, for the report; None before there is enough."""
    return misfit_of(db, stream, TWO) if len(policy.states) == 2 else misfit_of(db, stream, MORE)


def _theta(believed: R | None, *, start: R, floor: R, now: Progress) -> R:
    if believed is None:
        return start.hull(floor)
    theta = _cut(believed, start)
    if any(now.lasting):
        theta = theta.hull(_cut(learner_of(believed).slowed(believed, now.lasting), start))
    return theta.hull(floor if now.hidden <= HIDDEN else start.hull(floor))


def _cut(region: R, start: R) -> R:
    """What of a region the policy's start allows; both where, beyond doubt, it allows nothing: then it is wrong."""
    return _both(start, region) or _both(start, learner_of(region).with_doubt(region)) or start.hull(region)


def progress(db: Connection, stream: str) -> Progress:
    row = db.execute(select(learning).where(learning.c.stream == stream)).first()
    if row is None:
        return Progress()
    return Progress(row.windows, tuple(json.loads(row.lasting)), row.hidden, row.contradictions)


def misfit_of(db: Connection, stream: str, learner: Learner[R]) -> Misfit | None:
    """The misfit in the evidence kept, for the report; None before there is enough."""
    found = learner.found(db, stream, since=0)
    return None if found is None else found.misfit(_misfit_error(block_of(progress(db, stream).windows)))


def note(db: Connection, stream: str, window: Iterable[Counted], *, tilt: int, learner: Learner[R]) -> None:
    """Take in one window's exact sums; draw their noise and look again when it is time.

    Within the transaction that charges the window `tilt` nano-nats for it.
    """
    before = progress(db, stream)
    now = replace(before, windows=before.windows + 1)
    block, since_look = block_of(now.windows), now.windows - last_look(now.windows - 1)
    pending.hold(db, stream, window, tilt=tilt)
    looks = now.windows == last_look(now.windows)
    if looks or (is_check(since_look) and COHORT in _beliefs(db, stream, learner)):
        learner.add(db, stream, block, pending.draw(db, stream, learner))
        now = _check(db, stream, block, now, learner)
        if looks and now.windows:
            now = _look(db, stream, block, now, learner)
    _keep(db, stream, now)


def is_check(since_look: int) -> bool:
    """Whether what is believed is checked so many windows after a look: after 1, 2, 4, …"""
    return since_look & (since_look - 1) == 0


def block_of(windows: int) -> int:
    """The block that this window belongs to: 0 up to the first look, then one more for each look."""
    return max(0, (max(windows, 1) - 1) // FIRST_LOOK).bit_length()


def last_look(windows: int) -> int:
    """The number of windows at the last look, 0 before the first."""
    return 0 if windows < FIRST_LOOK else FIRST_LOOK << ((windows // FIRST_LOOK).bit_length() - 1)


def share_of_look(block: int) -> float:
    """What the look at the end of this block may have of an error that all looks share: ½, ¼, …, together 1."""
    return 0.5 ** (block + 1)


def change_error(block: int) -> float:
    """What each test for a change in this block may have of CHANGE_ERROR.

    Block k ≥ 1 is of 2^(k+1) windows: it has k+1 checks, and its look.
    """
    return CHANGE_ERROR * share_of_look(block - 1) / (block + 2)


def _misfit_error(block: int) -> float:
    return MISFIT_ERROR * share_of_look(block)


def _check(db: Connection, stream: str, block: int, now: Progress, learner: Learner[R]) -> Progress:
    """Hold the evidence since the last look against what is believed, and drop what it contradicts beyond doubt."""
    believed = _beliefs(db, stream, learner)
    recent = learner.found(db, stream, since=block) if believed else None
    if recent is None:
        return now
    whole = believed[COHORT]
    error = change_error(block)
    own = recent.devices(1 - error / 2 / recent.size)
    outside = {device for device, chains in own.items() if _both(chains, whole) is None}
    if _both(recent.centre(1 - error / 2), whole) is None or len(outside) > max(1, MANY * len(own)):
        return _restart(db, stream, now, learner)
    changed = {device for device, chains in own.items() if _both(chains, believed.get(device, whole)) is None}
    if not changed:
        return now
    _forget(db, stream, changed, learner)
    _believe(db, stream, {device: learner.anything(whole) for device in changed & outside}, learner)
    return replace(now, contradictions=now.contradictions + 1)


def _look(db: Connection, stream: str, block: int, now: Progress, learner: Learner[R]) -> Progress:
    """Intersect what is believed with the regions of this look."""
    found = learner.found(db, stream, since=block - KEPT_BLOCKS + 1)
    if found is None:
        return now
    confidence = 1 - (1 - CONFIDENCE) * share_of_look(block) / 2
    believed = _beliefs(db, stream, learner)
    whole = _both(found.cohort(confidence), believed.get(COHORT))
    if whole is None:
        return _restart(db, stream, now, learner)
    known = believed | {
        device: _both(own, believed.get(device)) for device, own in found.devices(confidence).items()
    }
    torn = {device for device, own in known.items() if own is None}
    _forget(db, stream, torn, learner)
    fresh = {device: _both(own, whole) or own for device, own in known.items() if own is not None}
    _believe(db, stream, fresh | {COHORT: whole}, learner)
    statistic = learner.statistic
    db.execute(
        delete(statistic).where(statistic.c.stream == stream, statistic.c.block < block - KEPT_BLOCKS + 2)
    )
    misfit = found.misfit(_misfit_error(block))
    return replace(
        now,
        lasting=misfit.lasting,
        hidden=min(now.hidden, misfit.hidden),
        contradictions=now.contradictions + bool(torn),
    )


def _both(one: R, other: R | None) -> R | None:
    """The chains of both; None where there are none. Nothing believed excludes nothing."""
    try:
        return one if other is None else one.intersect(other)
    except ValueError:
        return None


def _restart(db: Connection, stream: str, now: Progress, learner: Learner[R]) -> Progress:
    """Drop all that was believed and all evidence: what comes now is the first of a new sequence.

    Of the evidence at hand it is not known how much is older than the change.
    """
    for table in (learner.belief, learner.statistic):
        db.execute(delete(table).where(table.c.stream == stream))
    return Progress(contradictions=now.contradictions + 1)


def _forget(db: Connection, stream: str, devices: Iterable[str], learner: Learner[R]) -> None:
    """Drop what is believed of these devices, and their evidence."""
    for table, device in itertools.product((learner.belief, learner.statistic), devices):
        db.execute(delete(table).where(table.c.stream == stream, table.c.device == device))


def _beliefs(db: Connection, stream: str, learner: Learner[R]) -> dict[str, R]:
    rows = db.execute(select(learner.belief).where(learner.belief.c.stream == stream))
    return {row.device: learner.read(row) for row in rows}


def _believe(db: Connection, stream: str, fresh: Mapping[str, R], learner: Learner[R]) -> None:
    for device in fresh:
        db.execute(
            delete(learner.belief).where(learner.belief.c.stream == stream, learner.belief.c.device == device)
        )
    rows = [{"stream": stream, "device": device, **learner.written(one)} for device, one in fresh.items()]
    if rows:
        db.execute(insert(learner.belief), rows)


def _keep(db: Connection, stream: str, now: Progress) -> None:
    values = asdict(now) | {"lasting": json.dumps(now.lasting)}
    if db.execute(update(learning).where(learning.c.stream == stream).values(**values)).rowcount == 0:
        db.execute(insert(learning).values(stream=stream, **values))
