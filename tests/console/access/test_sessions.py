"""Sessions end, and failed logins have to wait."""

from __future__ import annotations

from hushmq.console.access.login_limits import BY_ADDRESS, BY_NAME, MOST_KEYS, WINDOW_S, LoginLimits
from hushmq.console.access.sessions import IDLE_S, LONGEST_S, MOST, Sessions
from hushmq.console.access.users_file import User

ANN = User("ann", "operator", "hash")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_when_it_is_not_used() -> None:
    """A live update is no use of it, a page is; after half a day it ends in any case."""
    clock = Clock()
    sessions = Sessions(clock)
    token, session = sessions.begin(ANN)
    users = {"ann": ANN}
    clock.now = IDLE_S - 1
    assert sessions.find(token, users, used=False) is session
    clock.now = IDLE_S + 1
    assert sessions.find(token, users) is None
    token, session = sessions.begin(ANN)
    while clock.now < IDLE_S + 1 + LONGEST_S - 100:
        clock.now += IDLE_S - 200
        found = sessions.find(token, users)
        assert found is session or clock.now - session.since > LONGEST_S
    clock.now = session.since + LONGEST_S + 1
    assert sessions.find(token, users) is None


def test_a_changed_user_has_to_log_in_again() -> None:
    """Another role or password, or removal, ends all sessions of a user."""
    for later in ({}, {"ann": User("ann", "viewer", "hash")}, {"ann": User("ann", "operator", "other")}):
        sessions = Sessions()
        token, session = sessions.begin(ANN)
        assert sessions.find(token, {"ann": ANN}) is session
        assert sessions.find(token, later) is None
        assert sessions.find(token, {"ann": ANN}) is None


def test_tokens_are_not_kept_and_sessions_are_bounded() -> None:
    """The newest stay; a stranger's token finds nothing."""
    clock = Clock()
    sessions = Sessions(clock)
    first, _ = sessions.begin(ANN)
    assert first not in repr(vars(sessions))
    for clock.now in range(1, MOST + 1):
        last, _ = sessions.begin(ANN)
    users = {"ann": ANN}
    assert sessions.find(first, users) is None
    assert sessions.find(last, users) is not None
    assert sessions.find("", users) is sessions.find("made up", users) is None


def test_failures_wait_and_are_forgotten() -> None:
    """Ten from one address, twenty for one name, within five minutes; others are not held up; memory is bounded."""
    clock = Clock()
    limits = LoginLimits(clock)
    for _ in range(BY_ADDRESS):
        assert limits.wait_s("1.1.1.1", "ann") == 0
        limits.failed("1.1.1.1", "ann")
    assert limits.wait_s("1.1.1.1", "bob") == WINDOW_S
    assert limits.wait_s("2.2.2.2", "ann") == 0
    for n in range(BY_NAME - BY_ADDRESS):
        limits.failed(f"3.3.3.{n}", "ann")
    assert limits.wait_s("2.2.2.2", "ann") == WINDOW_S
    limits.succeeded("2.2.2.2", "ann")
    assert limits.wait_s("2.2.2.2", "ann") == 0
    clock.now = WINDOW_S + 1
    assert limits.wait_s("1.1.1.1", "bob") == 0
    for n in range(MOST_KEYS + 10):
        limits.failed(f"a{n}", "x")
    assert len(limits._failures) <= MOST_KEYS
