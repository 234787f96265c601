"""What is known of one device from its status: the last full report, whether it is on line, and what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hushmq.broker.contract.messages import Refusal, Status, StreamStatus
from hushmq.console.activity.activity_log import Happened
from hushmq.console.state.reasons import reason_in_words

PRESENCE: dict[bool | None, tuple[str, str]] = {
    True: ("online", "on line"),
    False: ("offline", "off line"),
    None: ("hidden", "hides its presence"),
}


MOST_SAMPLES = 48
"""Reports kept of each device for its pictures; when there are more, every second is dropped."""


class Sample(NamedTuple):
    """What a device reported at some time, over all its streams."""

    at: float
    buffered: int
    dropped: int
    signal: float | None


@dataclass(slots=True)
class DeviceRecord:
    """A device. A last will says only that it is off line: the rest stays as it was reported before."""

    name: str
    online: bool | None = None
    """None where the device hides its presence."""
    policy: int | None = None
    refused: Refusal | None = None
    streams: dict[str, StreamStatus] = field(default_factory=dict)
    heard: float | None = None
    """When its last message came, in seconds since the epoch; None for one that the broker had kept."""
    dropping: bool = False
    """Whether its last report had dropped more ticks than the one before."""

    samples: list[Sample] = field(default_factory=list)
    spacing_s: float = 1.0
    """Samples are at least so far apart; it doubles whenever there are too many."""

    def sample(self, at: float, signal: float | None) -> None:
        """Keep what was reported just now for the device's pictures."""
        if self.samples and at - self.samples[-1].at < self.spacing_s:
            return
        self.samples.append(Sample(at, self.buffered, self.dropped, signal))
        if len(self.samples) > MOST_SAMPLES:
            self.samples, self.spacing_s = self.samples[::2], 2 * self.spacing_s

    def update(self, status: Status, *, at: float | None) -> list[tuple[str, str]]:
        """Take over a report; return what changed: a word for it, and a sentence."""
        changed: list[tuple[str, str]] = []
        if status.online != self.online:
            changed.append(PRESENCE[status.online])
        self.online, self.heard = status.online, at if at is not None else self.heard
        if status.online is False and status.policy is None and not status.streams:
            return changed
        if status.policy != self.policy and status.policy is not None:
            changed.append(("applied", f"applied policy {status.policy}"))
        if status.refused is not None and status.refused != self.refused:
            changed.append(("refused", f"refused policy {_refusal(status.refused)}"))
        for name, one in status.streams.items():
            before = self.streams.get(name)
            if one.noise is not None and (before is None or before.noise != one.noise):
                changed.append(("applied", f"applied noise {one.noise} of {name}"))
            if one.refused is not None and (before is None or before.refused != one.refused):
                changed.append(("refused", f"refused noise of {name} {_refusal(one.refused)}"))
        more = sum(one.dropped for one in status.streams.values()) - self.dropped
        self.dropping = bool(self.streams) and more > 0
        if self.dropping:
            changed.append(("dropped", f"dropped {more} ticks that nobody had counted"))
        self.policy, self.refused, self.streams = status.policy, status.refused, dict(status.streams)
        return changed

    @property
    def buffered(self) -> int:
        """Ticks that wait to be seen, over all streams."""
        return sum(one.buffered for one in self.streams.values())

    @property
    def dropped(self) -> int:
        """Ticks that were dropped, over all streams."""
        return sum(one.dropped for one in self.streams.values())

    def refusals(self) -> list[tuple[str, Refusal]]:
        """What it refuses: the policy, or noise of a stream."""
        found = [("policy", self.refused)] if self.refused else []
        return found + [(name, one.refused) for name, one in self.streams.items() if one.refused]


def _refusal(refused: Refusal) -> str:
    version = "" if refused.version is None else f"{refused.version}: "
    return f"{version}{reason_in_words(refused.reason)[0]}"


def unsaid(changed: Iterable[str], said: Sequence[Happened]) -> Iterator[str]:
    """What a log does not say already, of what a console that has just started hears of a device.

    Versions never come again; a device goes and comes, so that of its presence only the newest word counts.
    """
    known = {words for _, words in said}
    states = {words for _, words in PRESENCE.values()}
    newest = next((words for _, words in said if words in states), None)
    for words in changed:
        if words != newest if words in states else words not in known:
            yield words
