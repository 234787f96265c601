"""Limits on failed logins, by address and by name: a password cannot be guessed by trying."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable

WINDOW_S = 300.0
"""Failures are counted for so long."""
BY_ADDRESS = 10
BY_NAME = 20
"""Failures after which further attempts wait. A name has more, so that it is not easily locked from elsewhere."""
MOST_KEYS = 10_000
"""Addresses and names remembered; beyond that the oldest is forgotten, and memory stays bounded."""


class LoginLimits:
    """Counts failures of the last minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def wait_s(self, address: str, name: str) -> float:
        """Seconds until the next attempt from this address, or for this name, is heard; 0: now."""
        return max(
            self._wait(("address", address), BY_ADDRESS),
            self._wait(("name", name), BY_NAME),
        )

    def failed(self, address: str, name: str) -> None:
        """Count one failure."""
        for key in (("address", address), ("name", name)):
            self._failures.setdefault(key, deque()).append(self._clock())
            self._failures.move_to_end(key)
        while len(self._failures) > MOST_KEYS:
            self._failures.popitem(last=False)

    def succeeded(self, address: str, name: str) -> None:
        """Forget the failures of whoever has logged in."""
        self._failures.pop(("address", address), None)
        self._failures.pop(("name", name), None)

    def _wait(self, key: tuple[str, str], most: int) -> float:
        found = self._failures.get(key)
        if found is None:
            return 0.0
        now = self._clock()
        while found and found[0] <= now - WINDOW_S:
            found.popleft()
        return 0.0 if len(found) < most else found[-most] + WINDOW_S - now
