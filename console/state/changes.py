"""What has changed, for whoever shows it: each reader gets the names of changed things, collected for a moment.

Names are of two kinds. Public ones (release, policy, setting, and a forecast that follows from them) may wake anybody;
all others wake operators only, so that a viewer's page moves when something public does, and at no other time. Both
kinds are numbered separately: what a viewer's page holds of the numbers counts public changes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

PUBLIC = frozenset({"release", "policy", "setting", "forecast"})
COLLECT_S = 0.25
"""Changes within this time are handed over together."""


class ChangeReader:
    """One reader's unread changes."""

    def __init__(self, unread: set[str]) -> None:
        self._unread = unread
        self._arrived = asyncio.Event()
        if unread:
            self._arrived.set()

    def put(self, name: str) -> None:
        self._unread.add(name)
        self._arrived.set()

    async def wait(self, timeout: float) -> set[str]:
        """The names of what has changed; nothing if nothing has for `timeout` seconds."""
        try:
            await asyncio.wait_for(self._arrived.wait(), timeout)
        except TimeoutError:
            return set()
        await asyncio.sleep(COLLECT_S)
        found, self._unread = self._unread, set()
        self._arrived.clear()
        return found


class Numbered:
    """Changes of one kind: the number of each name's last one, and who waits for them."""

    def __init__(self) -> None:
        self.number = 0
        self.last: dict[str, int] = {}
        self.readers: set[ChangeReader] = set()

    def note(self, name: str) -> None:
        self.number += 1
        self.last[name] = self.number
        for reader in self.readers:
            reader.put(name)

    def since(self, number: int) -> set[str]:
        """What has changed after a change with this number."""
        return {name for name, last in self.last.items() if last > number}


class Changes:
    """All changes and their readers. To be used on the event loop's thread."""

    def __init__(self) -> None:
        self._kinds = {"viewer": Numbered(), "operator": Numbered()}

    def note(self, name: str) -> None:
        """Hand a change to every reader that may know of it."""
        self._kinds["operator"].note(name)
        if name in PUBLIC:
            self._kinds["viewer"].note(name)

    def number(self, role: str) -> int:
        """The number of the newest change that a role may know of."""
        return self._kinds[role].number

    @contextmanager
    def reader(self, role: str, since: int) -> Iterator[ChangeReader]:
        """A reader of all changes that the role may know of, after the one with this number."""
        kind = self._kinds[role]
        one = ChangeReader(kind.since(since))
        kind.readers.add(one)
        try:
            yield one
        finally:
            kind.readers.discard(one)

    @property
    def readers(self) -> int:
        return sum(len(kind.readers) for kind in self._kinds.values())
