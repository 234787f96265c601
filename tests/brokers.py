"""Which brokers this machine has."""

from __future__ import annotations

import os
import time

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.access_rights import Identity, Rights, Site
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.mosquitto import executable


class OpenSite(Site):
    """A site at whose broker everybody may do everything."""

    def rights(self, identity: Identity) -> Rights:
        return Rights(("#",), ("#",))


def has_mosquitto() -> bool:
    try:
        executable()
    except Problem:
        return False
    return True


def require_mosquitto() -> None:
    """Go on where Mosquitto can be run; elsewhere skip with the reason, or fail with CI=true."""
    try:
        executable()
    except Problem as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(problem))


def wait_until_saved(server: BrokerProcess, timeout: float = 60.0) -> None:
    """Wait until Mosquitto has written its store, which it does every other second; NATS has done so already."""
    if not (server.folder / "mosquitto.conf").exists():
        return
    began, deadline = time.time_ns(), time.monotonic() + timeout
    while not any(path.stat().st_mtime_ns > began for path in server.folder.rglob("mosquitto.db")):
        assert time.monotonic() < deadline, "Mosquitto did not save its store"
        time.sleep(0.05)
