"""Releases made on the device: histograms of true states over tumbling windows, with discrete Laplace noise.

Counts are raw, so they are held in memory only: of a window interrupted by a stop or a crash the ticks before count as
the stand-in, as do ticks that were never sampled. So a release always states all ticks of its window, and whether a
window is released does not depend on the data. Each window is released once. A tick is counted once per window, so all
releases of one window together are one query in which a tick changes one count by one (two states) or two by one
(more): the tilt per tick is 1/scale or 2/scale (docs/theory.md, section 2), whatever the length of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from hushmq.agent.storage.outbox_releases import MadeRelease
from hushmq.broker.contract.messages import NoiseSetting, Release, SharedBy, encode
from hushmq.broker.contract.operator_loss import windows_loss
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.release_times import release_times
from hushmq.pufferfish.inference.half_width import half_width
from hushmq.pufferfish.noise.discrete_laplace import discrete_laplace, standard_deviation


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """A window whose last tick has elapsed, with its true counts, which are never stored and not in its repr."""

    window: str
    first: int
    last: int
    counts: tuple[int, ...]

    def __repr__(self) -> str:
        return f"ClosedWindow({self.window}, {self.first}…{self.last})"


class WindowCounter:
    """Counts the states of one window of one stream; ticks that are never added count as the stand-in."""

    def __init__(self, name: str, ticks: int, states: int, stand_in: int) -> None:
        self._name, self._ticks, self._states, self._stand_in = name, ticks, states, stand_in
        self._number: int | None = None
        self._counts = [0] * states

    def add(self, first: int, states: Sequence[int]) -> list[ClosedWindow]:
        """Count the states of the ticks `first`, `first` + 1, …; returns the windows this closes."""
        closed: list[ClosedWindow] = []
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

    def _close(self) -> list[ClosedWindow]:
        number, counts = self._number, self._counts
        self._number, self._counts = None, [0] * self._states
        if number is None:
            return []
        counts[self._stand_in] += self._ticks - sum(counts)
        return [ClosedWindow(self._name, number * self._ticks, (number + 1) * self._ticks - 1, tuple(counts))]


def release(
    closed: ClosedWindow,
    stream: str,
    policy: StreamPolicy,
    setting: NoiseSetting,
    *,
    device: str,
    entry: int,
    account: SharedBy | None = None,
) -> MadeRelease:
    """Draw the noise of a closed window and encode its release; `account` says who shares it, if any."""
    scale, ticks = policy.device_windows[closed.window].scale, sum(closed.counts)
    counts = tuple(count + discrete_laplace(Fraction(scale)) for count in closed.counts)
    if len(counts) == 2:
        # The number of ticks is public, so one noisy count determines the other.
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
        tilt=ceil(1e9 * policy.counts_changed / scale),
        loss=windows_loss(setting.theta, policy.device_window_tilt, policy.adversary, policy.tilt_share),
        budget=policy.epsilon.public,
        adversary=policy.adversary,
        theta=setting.theta,
        entry=entry,
        account=account,
        **release_times(closed.first, closed.last, policy.period_ms),
    )
    return MadeRelease(stream, closed.window, closed.first, encode(message))
