"""The pipeline of one stream, from ticks to batches."""

from __future__ import annotations

from typing import Any

import pytest

from hushmq.agent.sources.beat_schedule import LONGEST, BeatSchedule
from hushmq.agent.sources.resample import Resampler, Value
from hushmq.agent.sources.source import OfferedSource
from hushmq.agent.storage.outbox import MadeBatch
from hushmq.agent.stream import Stream, phase_of
from hushmq.broker.contract.messages import Batch, decode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.packing import unpack
from tests.agent.clocks import MS, Hands
from tests.agent.peer import noise, stream_policy

PERIOD_MS = 2
EACH = BeatSchedule(10 * PERIOD_MS)


def started(**changes: Any) -> tuple[Hands, Stream, OfferedSource]:
    """A stream under a policy with these changes."""
    hands = Hands()
    source = OfferedSource(Resampler(hands.clock(), PERIOD_MS))
    stream = Stream("motion", source, stream_policy(**changes), clock=hands.clock())
    return hands, stream, source


def beats(values: list[Value], ticks: int = 50) -> list[list[MadeBatch]]:
    """Return the result of each beat of a number of ticks, when every tick has the next value."""
    hands, stream, source = started()
    stream.use(noise(), -1)
    found, watermark = [], -1
    for beat in range(8):
        for tick in range(ticks):
            source.offer(values[(beat * ticks + tick) % len(values)])
            hands.run(PERIOD_MS)
        made = stream.beat(watermark, BeatSchedule(ticks * PERIOD_MS)).made
        watermark = made[-1].last
        found.append(made)
    return found


def test_when_and_how_much_is_sent_does_not_depend_on_the_values() -> None:
    """Whatever the values are, every beat publishes the same ticks, in batches of the same size."""
    shapes = [
        [[(batch.first, batch.last, len(batch.payload)) for batch in beat] for beat in beats(values)]
        for values in ([60.0], [90.0], [60.0, 90.0], [90.0, 90.0, 60.0])
    ]
    assert shapes[0] == shapes[1] == shapes[2] == shapes[3]
    assert all(len(beat) == 1 for beat in shapes[0])


def test_without_a_setting_nothing_is_published_or_kept() -> None:
    """Ticks before the first setting are a gap for ever: their values are not perturbed later."""
    hands, stream, source = started()
    source.offer(90.0)
    hands.run(100 * PERIOD_MS)
    assert stream.beat(-1, EACH).made == []
    passed = hands.wall_ns // (PERIOD_MS * MS)
    stream.use(noise(), -1)
    source.offer(90.0)
    hands.run(10 * PERIOD_MS)
    (made,) = stream.beat(-1, EACH).made
    assert made.first > passed
    assert decode(Batch, made.payload).count == made.last - made.first + 1 <= 10


def test_a_refused_value_is_the_stand_in_and_counted() -> None:
    """It is published like any other, and how often it came stays on the device."""
    hands, stream, source = started()
    stream.use(noise(), -1)
    hands.run(PERIOD_MS)
    source.offer("neither number nor state")
    hands.run(9 * PERIOD_MS)
    (made,) = stream.beat(-1, EACH).made
    assert made.last - made.first == 8
    assert stream.values_refused == stream.newly_refused() > 0
    assert stream.newly_refused() == 0


@pytest.mark.parametrize(("stand_in", "state"), [("low", 0), ("high", 1)])
def test_missed_ticks_are_filled_with_the_stand_in(stand_in: str, state: int) -> None:
    """After a restart and after a jump of the clock, in the batches of the schedule, whatever the source has."""
    quiet = noise(noise=BinaryNoiseMessage(rho0=1e-9, rho1=1e-9))
    hands, stream, source = started(stand_in=stand_in)
    source.offer(60.0 if state else 90.0)
    now = hands.wall_ns // (PERIOD_MS * MS)
    stream.use(quiet, now - 1_000, resume=True)
    hands.run(100 * PERIOD_MS)
    schedule = BeatSchedule(100 * PERIOD_MS)

    def states() -> dict[int, int]:
        found = {}
        for made in stream.beat(now - 1_000, schedule, final=True).made:
            batch = decode(Batch, made.payload)
            assert batch.first // 100 == batch.last // 100
            found |= dict(enumerate(unpack(batch.states, batch.count), batch.first))
        return found

    found = states()
    assert sorted(found) == list(range(now - 999, now + 100))
    assert {found[tick] for tick in range(now - 999, now + 1)} == {state}
    assert {found[tick] for tick in range(now + 1, now + 100)} == {1 - state}
    hands.wall_ns += 1_000_000 * MS
    jumped = states()
    assert len(jumped) == LONGEST - LONGEST % 100
    assert set(jumped.values()) == {state}


def test_a_new_setting_applies_to_no_tick_before_it() -> None:
    """While there is none nothing is published, and the next one, which was issued later, does not fill."""
    hands, stream, _ = started()
    stream.use(noise(), -1)
    hands.run(10 * PERIOD_MS)
    used = stream.beat(-1, EACH).made[-1].last
    stream.use(None, used)
    hands.run(10 * PERIOD_MS)
    assert stream.beat(used, EACH).made == []
    stream.use(noise(2), used)
    hands.run(10 * PERIOD_MS)
    made = stream.beat(used, EACH).made
    assert (made[0].first, made[-1].last) == (used + 12, used + 20)


@pytest.mark.parametrize("device", ["wearable-1", "wearable-2", "ring"])
def test_a_strided_stream_publishes_one_tick_of_every_stride(device: str) -> None:
    """That of the device's phase, under the stride's number, whatever the others are; strides are numbered on."""
    hands = Hands()
    source = OfferedSource(Resampler(hands.clock(), PERIOD_MS))
    policy, stride = stream_policy(stride=4), 4
    stream = Stream("motion", source, policy, clock=hands.clock(), device=device)
    stream.use(noise(noise=BinaryNoiseMessage(rho0=1e-9, rho1=1e-9)), -1)
    started_at = hands.clock().wall() // (PERIOD_MS * MS)
    sent: dict[int, float] = {}
    made = []
    for tick in range(started_at, started_at + 403):
        sent[tick] = 90.0 if (tick // 3) % 2 else 60.0
        source.offer(sent[tick])
        hands.run(PERIOD_MS)
        if tick % 50 == 0:
            made += stream.beat(made[-1].last if made else -1, BeatSchedule(10 * PERIOD_MS)).made
    found = {}
    for one in made:
        batch = decode(Batch, one.payload)
        found |= dict(enumerate(unpack(batch.states, batch.count), batch.first))
    numbers = sorted(found)
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert len(numbers) > 80
    phase = phase_of(device, stride)
    wrong = [n for n in numbers if found[n] != (sent[n * stride + phase] >= 75.0)]
    assert len(wrong) <= 1  # a bit is flipped once in 10⁹ times


def test_phases_are_spread_and_follow_from_the_name_alone() -> None:
    """The ticks that a cohort publishes are spread over all of a stride."""
    phases = [phase_of(f"device-{n}", 10) for n in range(1000)]
    assert {phases.count(one) > 60 for one in range(10)} == {True}
    assert phases == [phase_of(f"device-{n}", 10) for n in range(1000)]
    assert phase_of("device-1", 1) == 0
