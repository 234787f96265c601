"""A second broker, of the home itself, for sources that listen to one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hushmq.broker.provision.access_rights import Identity, Rights, Site
from hushmq.broker.provision.broker_process import BrokerProcess


@pytest.fixture
def gateway(
    mosquitto: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BrokerProcess]:
    """A local broker, as people have it beside zigbee2mqtt: one user who may do everything."""
    monkeypatch.setattr("hushmq.broker.provision.mosquitto.rights", lambda *_: Rights(("#",), ("#",)))
    site = Site("local", (Identity("ops", "home", "home-secret"),))
    with type(mosquitto)(site, tmp_path / "gateway") as server:
        yield server
