"""The pipeline of one stream: elapsed ticks → values → states → perturbed batches."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from hushmq.agent.device_windows import ClosedWindow, WindowCounter
from hushmq.agent.discretise import discretiser
from hushmq.agent.perturb import Mechanism
from hushmq.agent.sources.beat_schedule import BeatSchedule
from hushmq.agent.sources.source import Source
from hushmq.agent.sources.tick import Clock, Elapsed, Ticker
from hushmq.agent.storage.outbox import MadeBatch
from hushmq.agent.watch.arrival_rate import repeated_reading
from hushmq.agent.watch.stream_watch import StreamWatch
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.policy_message import StreamPolicy


@dataclass(frozen=True, slots=True)
class Beat:
    """The result of one beat of one stream; nothing has elapsed for one without a noise setting."""

    elapsed: Elapsed | None
    made: list[MadeBatch]
    closed: list[ClosedWindow]


def phase_of(device: str, stride: int) -> int:
    """Which tick of every stride a device publishes: a function of its name, so that a cohort's ticks are spread."""
    return int.from_bytes(blake2b(device.encode(), digest_size=8, person=b"stride").digest()) % stride


class Stream:
    """One stream under one policy, with the noise setting now in force.

    While it has a setting, every tick is published: with its state, or with the stand-in where there is none, and ticks
    that were missed with the stand-in. With a stride, one tick of every stride is, and numbers count strides. What is
    published, and in which batches, does not depend on the values, unless the policy asks for a stop when the states do
    not behave like Θ (docs/theory-world.md, Theorem 25).
    """

    def __init__(
        self,
        name: str,
        source: Source,
        policy: StreamPolicy,
        *,
        clock: Clock,
        device: str = "",
        stop_from: int | None = None,
    ) -> None:
        self.name = name
        self.policy = policy
        self.source = source
        self._phase = phase_of(device, policy.stride)
        self._clock = clock
        self._ticker: Ticker | None = None
        self._discretiser = discretiser(policy)
        self._mechanism: Mechanism | None = None
        self.watch = StreamWatch(policy, stop_from=stop_from)
        self._windows = [
            WindowCounter(window, section.ticks, len(policy.states), policy.stand_in_state)
            for window, section in policy.device_windows.items()
        ]
        self._refused = source.unreadable

    @property
    def setting(self) -> NoiseSetting | None:
        """The noise setting in force."""
        return None if self._mechanism is None else self._mechanism.setting

    def use(self, setting: NoiseSetting | None, watermark: int, *, resume: bool = False) -> None:
        """Perturb with this setting from the next beat on; with None, not at all.

        The first one applies to ticks after the present one. With `resume` it was in force before an absence, and
        applies to the ticks since the watermark, too, unless they are too many.
        """
        if setting is None:
            self._mechanism = self._ticker = None
        elif self._mechanism is None or self._mechanism.setting != setting:
            self._mechanism = Mechanism(setting)
            self._ticker = self._ticker or Ticker(
                self._clock, self.policy.stride_ms, watermark, self.policy.fill_ticks, resume=resume
            )
            self.watch.follow(setting.theta)

    @property
    def values_refused(self) -> int:
        """The number of values so far that could not be read, or that match no state of the policy."""
        return self.source.unreadable + self._discretiser.refused

    def newly_refused(self) -> int:
        """The number of values refused since the last call."""
        before, self._refused = self._refused, self.values_refused
        return self._refused - before

    @property
    def repeated_readings(self) -> str | None:
        """Why neighbouring ticks repeat one reading, and the remedy; None where they do not."""
        arrivals = self.source.arrivals
        every_ms = None if arrivals is None else arrivals.every_ms
        return None if every_ms is None else repeated_reading(every_ms, self.policy.period_ms)

    def beat(self, watermark: int, schedule: BeatSchedule, *, final: bool = False) -> Beat:
        """The batches and closed windows of the next ticks that have ended at the schedule's last beat.

        The final one has those that ended since, too, in a batch that is shorter than others.
        """
        if self._mechanism is None or self._ticker is None:
            return Beat(None, [], [])
        elapsed = self._ticker.elapsed(schedule, final=final)
        draws = self._mechanism.prepare(elapsed.count)  # before any value of these ticks is looked at
        stride = self.policy.stride
        live = (elapsed.first + elapsed.missed) * stride
        values = self.source.take(live, elapsed.last * stride + stride - 1)
        sampled = self._discretiser.states(values)
        # A stand-in for a value that never came is no state to compare; one for a refused value is.
        known = [None if value is None else state for value, state in zip(values, sampled, strict=True)]
        self.watch.compare(live, known)
        end = -(-self.watch.end((elapsed.last + 1) * stride) // stride)
        if end <= elapsed.first:
            return Beat(elapsed, [], [])
        states = [self.policy.stand_in_state] * elapsed.missed + sampled[self._phase :: stride]
        states = self.watch.substitutes(len(states)) or states
        parts = schedule.batches(elapsed.first, end - 1, self.policy.stride_ms)
        after = watermark if watermark >= 0 else None
        made = self._mechanism.batches(self.name, elapsed.first, states, after, draws=draws, parts=parts)
        # A stream with windows of its own has no stride.
        published = states[: end - elapsed.first]
        closed = [window for counter in self._windows for window in counter.add(elapsed.first, published)]
        return Beat(elapsed, made, closed)
