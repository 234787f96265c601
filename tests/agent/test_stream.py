"""The pipeline of one stream, from ticks to batches."""

from __future__ import annotations

from typing import Any

from hushmq.agent.sources.resample import Resampler, Value
from hushmq.agent.sources.source import OfferedSource
from hushmq.agent.storage.outbox import MadeBatch
from hushmq.agent.stream import Stream
from hushmq.broker.contract.messages import Batch, decode
from tests.agent.clocks import Hands
from tests.agent.peer import noise, stream_policy

PERIOD_MS = 2


def started(**changes: Any) -> tuple[Hands, Stream, OfferedSource]:
    """A stream under a policy with these changes."""
    hands = Hands()
    source = OfferedSource(Resampler(hands.clock(), PERIOD_MS, 1000))
    stream = Stream("motion", source, stream_policy(**changes), clock=hands.clock(), watermark=-1)
    return hands, stream, source


def beats(values: list[Value], ticks: int = 50) -> list[list[MadeBatch]]:
    """Return the result of each beat of a number of ticks, when every tick has the next value."""
    hands, stream, source = started()
    stream.use(noise())
    found, watermark = [], -1
    for beat in range(8):
        for tick in range(ticks):
            source.offer(values[(beat * ticks + tick) % len(values)])
            hands.run(PERIOD_MS)
        made = stream.beat(watermark).made
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
    assert stream.beat(-1).made == []
    passed = stream.beat(-1).elapsed.first
    stream.use(noise())
    source.offer(90.0)
    hands.run(10 * PERIOD_MS)
    (made,) = stream.beat(-1).made
    assert made.first >= passed
    assert decode(Batch, made.payload).count == made.last - made.first + 1 <= 10


def test_a_refused_value_is_a_gap_and_counted() -> None:
    hands, stream, source = started()
    stream.use(noise())
    hands.run(PERIOD_MS)
    source.offer("neither number nor state")
    hands.run(3 * PERIOD_MS)
    assert stream.beat(-1).made == []
    assert stream.values_refused == stream.newly_refused() > 0
    assert stream.newly_refused() == 0
