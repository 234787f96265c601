"""The presence attack: read door events off the headers of batches, without one noisy bit.

The sensor reports on change and is silent in between, as zigbee2mqtt's door sensors are. Before, a sample older than
`max_age_ms` was a gap, and gaps are published exactly: a batch that begins after a gap begins with an event. Now which
ticks are published does not depend on the data (docs/theory-world.md, W1). The agent's own stream is driven here, with
a clock set by hand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hushmq.agent.sources.beat_schedule import BeatSchedule
from hushmq.agent.sources.resample import Resampler
from hushmq.agent.sources.source import OfferedSource
from hushmq.agent.sources.tick import Clock
from hushmq.agent.stream import Stream
from hushmq.broker.contract.messages import Batch, NoiseSetting, decode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.policy_message import Assumption, Audiences, Labels, StreamPolicy
from hushmq.broker.contract.theta_message import theta_message
from hushmq.evaluation.attacks.attack_outcome import ERROR, AttackOutcome
from hushmq.evaluation.section_list import Job
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise
from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound, upper_confidence_bound

THETA = BinaryTheta(0.05, 0.45, 0.05, 0.45)
EPSILON = 4.0
PERIOD_MS, MAX_AGE, BEAT = 1000, 60, 10
"""A tick a second, the documented maximum age of a minute, a beat of ten ticks."""
DAY, EVENTS, BEGIN = 7200, 24, 1_800_000_000
"""The ticks of a simulated day, and the door events in it."""

Header = tuple[int, int]
"""The first tick of a batch and the number of its ticks, in clear on the wire."""


def attacks(job: Job) -> Iterator[AttackOutcome]:
    """Days with door events at random times: which events a reader of headers finds, and how often it is wrong."""
    days = 3 if job.quick else 20
    found = {"before": 0, "now": 0}
    wrong = {"before": 0, "now": 0}
    for number in range(days):
        events = door_events(job.rng("presence", number))
        for rule, headers in (("before", old_headers(events)), ("now", agent_headers(events))):
            guessed = set(guesses(headers))
            found[rule] += len(guessed & set(events))
            wrong[rule] += len(guessed - set(events))
    total, quiet = days * EVENTS, days * (DAY - EVENTS)
    before, now = (least_loss(found[rule], total, wrong[rule], quiet) for rule in ("before", "now"))
    most = upper_confidence_bound(found["now"], total, ERROR)
    yield AttackOutcome(
        "presence",
        "a door sensor that reports on change, read off batch headers",
        EPSILON,
        before,
        now,
        f"at least, at 95%: {found['before']} of {total} events found before, {found['now']} now, that is {most:.2%} "
        "at most",
        "the last value is held, and every tick of the schedule is published",
    )


def door_events(rng: np.random.Generator) -> list[int]:
    """Ticks of a day at which the door moves, each more than the maximum age after the one before."""
    slots = rng.choice(DAY // (2 * MAX_AGE) - 1, EVENTS, replace=False)
    return sorted(int(slot) * 2 * MAX_AGE + int(rng.integers(0, MAX_AGE // 2)) + MAX_AGE for slot in slots)


def old_headers(events: Sequence[int]) -> list[Header]:
    """The rule of before: ticks within the maximum age of the last event are published, in runs and by beats."""
    published = {tick for event in events for tick in range(event, event + MAX_AGE + 1)}
    headers: list[Header] = []
    for tick in sorted(published):
        if headers and sum(headers[-1]) == tick and tick % BEAT:
            headers[-1] = headers[-1][0], headers[-1][1] + 1
        else:
            headers.append((tick, 1))
    return headers


def agent_headers(events: Iterable[int]) -> list[Header]:
    """The batches that the agent's stream makes of such a day."""
    now = [BEGIN * 10**9]
    clock = Clock(lambda: now[0], lambda: now[0])
    resampler = Resampler(clock, PERIOD_MS)
    stream = Stream("door", OfferedSource(resampler), _policy(), clock=clock)
    stream.use(_setting(), -1)
    schedule = BeatSchedule(BEAT * PERIOD_MS)
    happening, state, headers, watermark = set(events), False, list[Header](), -1
    for tick in range(DAY):
        now[0] = (BEGIN + tick) * 10**9 + 10**8
        if tick in happening:
            state = not state
            resampler.offer("open" if state else "closed")
        for made in stream.beat(watermark, schedule).made:
            batch = decode(Batch, made.payload)
            watermark = batch.last
            headers.append((batch.first - BEGIN, batch.count))
    return headers


def guesses(headers: Sequence[Header]) -> Iterator[int]:
    """An event wherever a batch begins after a gap."""
    end = BEAT
    for first, count in headers:
        if first > end:
            yield first
        end = first + count


def least_loss(found: int, events: int, wrong: int, quiet: int) -> float:
    """A lower confidence bound on log P(guess | event) / P(guess | no event); 0 where it would be negative."""
    least = lower_confidence_bound(found, events, ERROR / 2)
    most = upper_confidence_bound(wrong, quiet, ERROR / 2)
    return max(0.0, math.log(least / most)) if least > 0 else 0.0


def _policy() -> StreamPolicy:
    return StreamPolicy(
        states=("closed", "open"),
        period_ms=PERIOD_MS,
        discretiser=Labels(),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(THETA)),
        epsilon=Audiences(operator=EPSILON, public=EPSILON),
        windows={},
    )


def _setting() -> NoiseSetting:
    noise = optimal_noise(THETA, EPSILON)
    return NoiseSetting(
        version=1,
        policy=1,
        cohort="attacked",
        stream="door",
        theta=theta_message(THETA),
        noise=BinaryNoiseMessage(rho0=noise.rho0, rho1=noise.rho1),
    )
