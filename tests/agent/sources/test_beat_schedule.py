"""Beats and batches are a function of settings and time alone."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hushmq.agent.sources.beat_schedule import LONGEST, MS, BeatSchedule

SCHEDULES = st.builds(BeatSchedule, st.integers(1, 5_000), st.integers(0, 4_999))


@given(SCHEDULES, st.integers(10_000, 10**7), st.integers(1, 3_000))
def test_a_tick_is_ready_at_the_first_beat_after_its_end(
    schedule: BeatSchedule, wall_ms: int, period_ms: int
) -> None:
    """By definition: the last beat up to a moment, and the ticks that had ended then."""
    beats = range(wall_ms - schedule.length_ms + 1, wall_ms + 1)
    (last,) = [beat for beat in beats if (beat - schedule.phase_ms) % schedule.length_ms == 0]
    ready = schedule.next_tick(wall_ms * MS + 999_999, period_ms)
    assert ready * period_ms <= last < (ready + 1) * period_ms
    assert schedule.last_beat_ms(wall_ms * MS) == last
    assert last * MS + schedule.length_ms * MS == wall_ms * MS + schedule.wait_ns(wall_ms * MS)


@given(SCHEDULES, st.integers(0, 10**6), st.integers(0, 2_000), st.integers(1, 3_000), st.data())
def test_batches_do_not_depend_on_when_they_are_made(
    schedule: BeatSchedule, first: int, count: int, period_ms: int, data: st.DataObject
) -> None:
    """Ticks that end between the same two beats are in one batch, whether made at once, beat by beat or after hours."""
    last = first + count
    found = list(schedule.batches(first, last, period_ms))
    assert [tick for begin, end in found for tick in range(begin, end + 1)] == list(range(first, last + 1))

    def beat_of(tick: int) -> int:
        return -((schedule.phase_ms - (tick + 1) * period_ms) // schedule.length_ms)

    assert all(beat_of(begin) == beat_of(end) for begin, end in found)
    assert all(beat_of(end) < beat_of(begin) for (_, end), (begin, _) in pairwise(found))
    cut = data.draw(st.sampled_from(found))[1]
    parts = [*schedule.batches(first, cut, period_ms), *schedule.batches(cut + 1, last, period_ms)]
    assert parts == found


def test_no_batch_is_longer_than_the_contract_allows() -> None:
    sizes = [end - begin + 1 for begin, end in BeatSchedule(10**6).batches(0, 10**6 - 1, 1)]
    assert max(sizes) == LONGEST
    assert sum(sizes) == 10**6


def test_devices_have_phases_of_their_own_that_stay() -> None:
    phases = [BeatSchedule.of(f"device-{number}", 10_000).phase_ms for number in range(100)]
    assert len(set(phases)) > 90
    assert all(0 <= phase < 10_000 for phase in phases)
    assert phases[7] == BeatSchedule.of("device-7", 10_000).phase_ms
