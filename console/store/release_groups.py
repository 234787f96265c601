"""Many releases as few groups: of each release no more is read than is drawn of it, which makes a year quick to see."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hushmq.console.store.release_series import ReleasePoint, release_point

MOST = 400
"""More releases than this are drawn in groups."""
_SHARES = re.compile(rb'"frequencies":(\[[^\]]*\])')
"""A release's shares in its stored bytes: within a JSON string, no quotation mark stands before a colon."""


@dataclass(frozen=True, slots=True)
class ReleaseGroup:
    """Consecutive releases: the last of them, and by state the least and the largest share of all."""

    last: ReleasePoint
    count: int
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class GroupedReleases:
    """The releases that have the newest one's states."""

    groups: Sequence[ReleaseGroup]
    listed: Sequence[ReleasePoint]
    """The last ones, the oldest first."""

    @property
    def newest(self) -> ReleasePoint:
        return self.groups[-1].last

    @property
    def count(self) -> int:
        return sum(one.count for one in self.groups)

    @property
    def grouped(self) -> bool:
        return len(self.groups) < self.count


def grouped_releases(payloads: Sequence[bytes], listed: int) -> GroupedReleases | None:
    """Stored releases of a topic, the oldest first, in at most `MOST` groups; so many of the last ones in full."""
    if not payloads:
        return None
    states = release_point(payloads[-1]).states
    known = b'"states":' + json.dumps(states, separators=(",", ":"), ensure_ascii=False).encode()
    alike = [one for one in payloads if known in one or release_point(one).states == states]
    size = -(-len(alike) // MOST)
    groups = [_group(alike[n : n + size]) for n in range(0, len(alike), size)]
    return GroupedReleases(groups, [release_point(one) for one in alike[-listed:]])


def _group(payloads: Sequence[bytes]) -> ReleaseGroup:
    last = release_point(payloads[-1])
    by_state = list(zip(*map(_shares, payloads[:-1]), last.frequencies, strict=True))
    return ReleaseGroup(last, len(payloads), tuple(map(min, by_state)), tuple(map(max, by_state)))


def _shares(payload: bytes) -> Any:
    found = _SHARES.search(payload)
    return json.loads(found[1]) if found else release_point(payload).frequencies
