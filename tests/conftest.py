"""Real brokers for every test that opens a socket: `broker` runs the test on NATS and on Mosquitto.

The site has the cohort "test" and the identities "ops", "calibrator", "subscriber", "console", "home-assistant",
"wearable-1" to "wearable-3". Each test gets its own process, on a free port, with an empty folder.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.provision.nats import NatsServer
from tests.brokers import has_mosquitto, require_mosquitto
from tests.containers import MosquittoContainer, docker_answers
from tests.recordings import missing

SITE = Site(
    cohort="test",
    identities=(
        Identity("ops", "ops", "ops-secret"),
        Identity("calibrator", "calibrator", "calibrator-secret"),
        Identity("subscriber", "subscriber", "subscriber-secret"),
        Identity("console", "console", "console-secret"),
        Identity("home-assistant", "home-assistant", "home-assistant-secret"),
        *(Identity("device", f"wearable-{n}", f"wearable-{n}-secret") for n in (1, 2, 3)),
    ),
)

# A shell that starts the tests in the background has them ignore interrupts, and so would every process they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SERVERS = {"broker", "nats", "mosquitto", "postgres_databases"}
"""Fixtures that start a server."""


# First of all: afterwards `-m` chooses by these marks.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts a server as slow; skip what needs the recordings where they are absent and may be."""
    reason = missing()
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if SERVERS & set(item.fixturenames) or parameters.get("databases") == "postgres":
            item.add_marker(pytest.mark.slow)
        if reason and item.get_closest_marker("needs_data") is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def site() -> Site:
    return SITE


@pytest.fixture
def nats(site: Site, tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(site, tmp_path / "nats") as server:
        yield server


@pytest.fixture
def mosquitto(site: Site, tmp_path: Path) -> Iterator[MosquittoServer]:
    kind = MosquittoServer
    if not has_mosquitto() and docker_answers():
        kind = MosquittoContainer
    else:
        require_mosquitto()
    with kind(site, tmp_path / "mosquitto") as server:
        yield server


@pytest.fixture(params=["nats", "mosquitto"])
def broker(request: pytest.FixtureRequest) -> BrokerProcess:
    server: BrokerProcess = request.getfixturevalue(request.param)
    return server
