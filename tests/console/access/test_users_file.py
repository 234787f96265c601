"""The users file: passwords are stored as scrypt hashes, and a damaged file lets nobody in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.console.access.users_file import UsersFile


def test_a_user_logs_in_with_the_password_and_nothing_else(tmp_path: Path) -> None:
    """The hash is not the password; a removed user is gone; the file is read again when it changes."""
    file = UsersFile(tmp_path / "users.json")
    file.add("ann", "operator", "a long password")
    assert "a long password" not in file.path.read_text()
    assert file.path.stat().st_mode & 0o077 == 0
    user = file.login("ann", "a long password")
    assert user is not None
    assert user.role == "operator"
    assert "scrypt" not in repr(user)
    assert file.login("ann", "a long passwore") is None
    assert file.login("bob", "a long password") is None
    UsersFile(file.path).remove("ann")
    assert file.login("ann", "a long password") is None


@pytest.mark.parametrize(
    ("name", "password", "words"),
    [
        ("ann", "short", "it has 5 characters: 10 to 1024 are needed"),
        ("Ann!", "a long password", "is no name of a user"),
    ],
)
def test_weak_passwords_and_odd_names_are_refused(
    tmp_path: Path, name: str, password: str, words: str
) -> None:
    """One line says what would be right."""
    with pytest.raises(Problem, match=words):
        UsersFile(tmp_path / "users.json").add(name, "viewer", password)


@pytest.mark.parametrize(
    "change",
    [
        {"role": "admin"},
        {"password": "plain text"},
        {"password": "scrypt$0$8$5$AAAA$AAAA"},
        {"password": "scrypt$1073741824$8$5$AAAA$AAAA"},
        {"password": "md5$16384$8$5$AAAA$AAAA"},
        {"password": None},
    ],
)
def test_a_damaged_file_lets_nobody_in(tmp_path: Path, users: Path, change: dict[str, object]) -> None:
    """An unknown role, another hash, or costs that would take all memory."""
    tree = json.loads(users.read_text())
    tree["users"]["ann"] |= change
    file = tmp_path / "users.json"
    file.write_text(json.dumps(tree))
    file.chmod(0o600)
    with pytest.raises(Problem, match="is damaged"):
        UsersFile(file).users()


def test_a_file_open_to_others_is_refused(tmp_path: Path, users: Path) -> None:
    """Hashes are for their owner's eyes."""
    file = tmp_path / "users.json"
    file.write_bytes(users.read_bytes())
    file.chmod(0o644)
    with pytest.raises(Problem, match="chmod 600"):
        UsersFile(file).users()
