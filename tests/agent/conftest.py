"""A second, local broker, for sources that subscribe to one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hushmq.broker.provision.access_rights import Identity
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.brokers import OpenSite


@pytest.fixture
def gateway(mosquitto: BrokerProcess, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A local broker as used with zigbee2mqtt: one user with all rights."""
    site = OpenSite("local", (Identity("ops", "home", "home-secret"),))
    with type(mosquitto)(site, tmp_path / "gateway") as server:
        yield server
