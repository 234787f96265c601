"""The users file: names, roles and hashed passwords, as JSON that only its owner can read.

A password is stored as scrypt$n$r$p$salt$key (RFC 7914), both texts in base64.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import threading
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.service.settings_file import read_secret

UserRole = Literal["viewer", "operator"]
USER_ROLES: tuple[UserRole, ...] = get_args(UserRole)
USER_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
N, R, P = 2**14, 8, 5
"""Scrypt's costs: 16 MB, and about a fifth of a second."""
LEAST = 10
"""The least number of characters of a password."""
LONGEST = 1024
_one_at_a_time = threading.Lock()
"""Guesses do not add up to more memory: one hash is computed at a time."""


@dataclass(frozen=True, slots=True)
class User:
    """A user of the console."""

    name: str
    role: UserRole
    password: str = field(repr=False)
    """The hash as it is stored."""


def hash_password(password: str) -> str:
    """Return the text to store for a password; raise Problem when it is too short or too long."""
    if not LEAST <= len(password) <= LONGEST:
        raise Problem(f"password: it has {len(password)} characters: {LEAST} to {LONGEST} are needed")
    salt = secrets.token_bytes(16)
    return "$".join(("scrypt", str(N), str(R), str(P), _text(salt), _text(_key(password, salt, N, R, P))))


def fits(password: str, stored: str) -> bool:
    """Whether a password has this hash; takes as long for a wrong one."""
    _, n, r, p, salt, key = stored.split("$")
    found = _key(password[:LONGEST], b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(found, b64decode(key))


def _key(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    with _one_at_a_time:
        return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=256 * n * r, dklen=32)


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()


NOBODY = "$".join(("scrypt", str(N), str(R), str(P), _text(bytes(16)), _text(bytes(32))))
"""The hash of no password: a login with an unknown name is compared with it, and takes as long."""


class UsersFile:
    """The users in a file, read again whenever it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_at: tuple[int, int] | None = None
        self._users: dict[str, User] = {}

    def users(self) -> Mapping[str, User]:
        """All users by name; raise Problem when the file is missing, damaged or open to others."""
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise Problem(f"users_file: {self.path}: {error.strerror}") from None
        if (found.st_mtime_ns, found.st_ino) != self._read_at:
            self._users = _parsed(self.path, read_secret(self.path, "users_file"))
            self._read_at = found.st_mtime_ns, found.st_ino
        return self._users

    def login(self, name: str, password: str) -> User | None:
        """The user with this name and password; None, after the same time, if there is none."""
        user = self.users().get(name)
        right = fits(password, NOBODY if user is None else user.password)
        return user if right else None

    def add(self, name: str, role: UserRole, password: str) -> None:
        """Add a user, or give one another role or password; a file that is not there is made."""
        if not USER_NAME.fullmatch(name):
            raise Problem(f"{name!r} is no name of a user: use a-z, 0-9, '.', '_' and '-', at most 64")
        known = dict(self.users()) if self.path.exists() else {}
        self._write({**known, name: User(name, role, hash_password(password))})

    def remove(self, name: str) -> None:
        """Remove a user; raise Problem if there is no such user."""
        known = dict(self.users())
        if name not in known:
            raise Problem(f"{name}: there is no such user; there are {', '.join(known) or 'none'}")
        del known[name]
        self._write(known)

    def _write(self, users: Mapping[str, User]) -> None:
        tree = {one.name: {"role": one.role, "password": one.password} for one in users.values()}
        write_private(self.path, json.dumps({"users": tree}, indent=2) + "\n")
        self._read_at = None


def _parsed(path: Path, text: str) -> dict[str, User]:
    try:
        tree = json.loads(text)["users"]
        found = {name: User(name, one["role"], one["password"]) for name, one in tree.items()}
        sound = all(map(_is_sound, found.values()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise Problem(
            f"users_file: {path} is damaged: write it with hushmq console user add, "
            "or put back the one that was there"
        ) from None
    return found


def _is_sound(user: User) -> bool:
    kind, n, r, p, salt, key = user.password.split("$")
    costs = int(n), int(r), int(p)
    bounded = min(costs) >= 1 and costs[0] * costs[1] <= 2**20
    known = kind == "scrypt" and user.role in USER_ROLES and USER_NAME.fullmatch(user.name) is not None
    return bounded and known and bool(b64decode(salt) and b64decode(key))
