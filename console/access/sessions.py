"""Sessions: who is logged in, by a random token in a cookie. They live in memory and end with the process."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from hushmq.console.access.users_file import User, UserRole

IDLE_S = 1800.0
LONGEST_S = 12 * 3600.0
MOST = 1_000
"""Sessions at once; the one unused for longest ends when there are more."""


@dataclass(slots=True)
class Session:
    """One login."""

    user: User
    since: float
    used: float
    csrf: str = field(repr=False)
    """What every form of the session carries: another site's form cannot know it."""

    @property
    def name(self) -> str:
        return self.user.name

    @property
    def role(self) -> UserRole:
        return self.user.role

    def sent_from_here(self, token: str) -> bool:
        """Whether a form carries the session's token."""
        return hmac.compare_digest(token.encode(), self.csrf.encode())


class Sessions:
    """All sessions, by a digest of their token: the tokens themselves are only in the cookies."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sessions: dict[bytes, Session] = {}

    def begin(self, user: User) -> tuple[str, Session]:
        """Begin a session; return the token for its cookie, and the session."""
        now, token = self._clock(), secrets.token_urlsafe(32)
        self._sessions[_digest(token)] = session = Session(user, now, now, secrets.token_urlsafe(32))
        while len(self._sessions) > MOST:
            del self._sessions[min(self._sessions, key=lambda key: self._sessions[key].used)]
        return token, session

    def find(self, token: str | None, users: Mapping[str, User], *, used: bool = True) -> Session | None:
        """The session of a cookie; None if it has ended, or its user was removed or changed since.

        A live update that runs by itself is no use of the session (`used` false): a page left open is logged out.
        """
        if not token:
            return None
        key, now = _digest(token), self._clock()
        session = self._sessions.get(key)
        if session is None:
            return None
        over = now - session.used > IDLE_S or now - session.since > LONGEST_S
        if over or users.get(session.name) != session.user:
            del self._sessions[key]
            return None
        if used:
            session.used = now
        return session

    def end(self, token: str | None) -> None:
        """End the session of a cookie, if there is one."""
        if token:
            self._sessions.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return blake2b(token.encode(), digest_size=32).digest()
