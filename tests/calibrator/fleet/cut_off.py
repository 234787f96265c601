"""A network namespace for one worker, which can be cut off from the database while it reaches the brokers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

NAME = f"hushfleet{os.getpid() % 10_000}"
HERE, DATABASE_HERE = "10.231.7.1", "10.231.8.1"
"""Addresses of this machine for the worker in the namespace: of brokers, and of the database."""
INSIDE = ("ip", "netns", "exec", NAME)
"""Before a command that is to run in the namespace."""


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def namespace() -> Iterator[None]:
    """The namespace, with an address for brokers and another for the database; needs root."""
    outside = f"v{NAME}"
    _ip("netns", "add", NAME)
    try:
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", NAME)
        for address in (HERE, DATABASE_HERE):
            _ip("addr", "add", f"{address}/24", "dev", outside)
            _ip("-n", NAME, "addr", "add", f"{address[:-1]}2/24", "dev", "eth0")
        _ip("link", "set", outside, "up")
        for link in ("eth0", "lo"):
            _ip("-n", NAME, "link", "set", link, "up")
        yield
    finally:
        subprocess.run(["ip", "netns", "del", NAME], check=False)
        subprocess.run(["ip", "link", "del", outside], check=False, capture_output=True)


def cut(*, off: bool) -> None:
    """Drop everything between the worker in the namespace and the database, or let it through again."""
    _ip("-n", NAME, "route", "add" if off else "del", "blackhole", f"{DATABASE_HERE}/32")
