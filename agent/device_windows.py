"""Device-made releases: true states counted over tumbling windows, with exact noise, each window once.

The counts live in memory only, since they are raw: what a stop or a crash interrupts is released with the ticks
counted afterwards, and says how many those are. A tick is counted once per window at most, so all releases of one
window together are one query in which a tick changes one count by one (two states) or two by one (more): the tilt
per tick is 1/scale or 2/scale (docs/theory.md, section 2), whatever the length of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from hushmq.broker.contract.messages import NoiseSetting, Release, StreamPolicy, encode
from hushmq.broker.contract.operator_loss import windows_loss
from hushmq.pufferfish.inference.half_width import half_width
from hushmq.pufferfish.noise.discrete_laplace import discrete_laplace, standard_deviation


@dataclass(frozen=True, slots=True)
class Closed:
    """A window whose last tick has elapsed, with its true counts: never shown, never stored."""

    window: str
    first: int
    last: int
    counts: tuple[int, ...]

    def __repr__(self) -> str:
        return f"Closed({self.window}, {self.first}…{self.last})"


@dataclass(frozen=True, slots=True)
class MadeRelease:
    """A release just drawn: the bytes that will be sent, the same ones each time."""

    stream: str
    window: str
    first: int
    payload: bytes


class WindowCounter:
    """Counts the states of one window of one stream."""

    def __init__(self, name: str, ticks: int, states: int) -> None:
        self._name, self._ticks, self._states = name, ticks, states
        self._number: int | None = None
        self._counts = [0] * states

    def add(self, first: int, states: Sequence[int | None]) -> list[Closed]:
        """Count the states of the ticks `first`, `first` + 1, …; the windows that this closes and that hold any."""
        closed: list[Closed] = []
        tick, end = first, first + len(states)
        while tick < end:
            number = tick // self._ticks
            if self._number is not None and number != self._number:
                closed += self._close()
            self._number = number
            upto = min(end, (number + 1) * self._ticks)
            part = states[tick - first : upto - first]
            for state in range(self._states):
                self._counts[state] += part.count(state)
            tick = upto
            if tick == (number + 1) * self._ticks:
                closed += self._close()
        return closed

    def _close(self) -> list[Closed]:
        number, counts = self._number, tuple(self._counts)
        self._number, self._counts = None, [0] * self._states
        if number is None or not any(counts):
            return []
        return [Closed(self._name, number * self._ticks, (number + 1) * self._ticks - 1, counts)]


def tilt(policy: StreamPolicy) -> float:
    """What all device-made windows of a stream together cost at one tick, in nats."""
    return sum(_changes(policy) / window.scale for window in policy.device_windows.values())


def _changes(policy: StreamPolicy) -> int:
    """How many of the released counts one tick can change, each by one."""
    return 1 if len(policy.states) == 2 else 2


def release(
    closed: Closed, stream: str, policy: StreamPolicy, setting: NoiseSetting, *, device: str, entry: int
) -> MadeRelease:
    """Draw the noise of a closed window, once, and write the release."""
    scale, ticks = policy.device_windows[closed.window].scale, sum(closed.counts)
    counts = tuple(count + discrete_laplace(Fraction(scale)) for count in closed.counts)
    if len(counts) == 2:
        # How many ticks were counted is no secret, so that one noisy count says it all.
        counts = (ticks - counts[1], counts[1])
    off = half_width(0.0, standard_deviation(scale) ** 2) / ticks
    message = Release(
        stream=stream,
        window=closed.window,
        scope=device,
        first=closed.first,
        last=closed.last,
        devices=1,
        ticks=ticks,
        states=policy.states,
        counts=counts,
        frequencies=tuple(count / ticks for count in counts),
        standard_errors=(standard_deviation(scale) / ticks,) * len(counts),
        intervals=tuple((count / ticks - off, count / ticks + off) for count in counts),
        scale=scale,
        tilt=ceil(1e9 * _changes(policy) / scale),
        loss=windows_loss(setting.theta, tilt(policy), policy.adversary),
        budget=policy.epsilon.public,
        adversary=policy.adversary,
        theta=setting.theta,
        entry=entry,
    )
    return MadeRelease(stream, closed.window, closed.first, encode(message))
