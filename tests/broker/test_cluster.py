"""Three NATS nodes from a generated configuration, with TLS between them: one is killed under load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from broker import nats
from broker.connection import Connection, Offline
from broker.description import Description, Node
from broker.endpoint import Endpoint
from broker.generate import generate
from broker.problem import Problem
from broker.process import BrokerProcess, free_port
from broker.site_folder import SiteFolder
from broker.topics import Topics
from tests.broker.scripted import wait_for

T = Topics("test")
BATCH = T.batch("wearable-1", "motion")
ELECTION = 60.0
"""Seconds, at most, until a cluster that starts or has lost a node serves again; usually a few."""


class ClusterNode(BrokerProcess):
    """One node, started from its generated folder."""

    ready = "Server is ready"

    def __init__(self, folder: SiteFolder, node: Node, out: Path) -> None:
        super().__init__(
            folder.site(), out / node.name, host=node.host, port=node.port, tls=folder.server_tls()
        )

    def command(self) -> list[str]:
        return [str(nats.executable()), "-c", str(self.folder / "nats.conf")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[ClusterNode]]:
    for attempt in range(3):  # six free ports at once: somebody else may be quicker for one of them
        with ExitStack() as stack:
            nodes = tuple(
                Node(
                    name=name,
                    host="127.0.0.1",
                    port=free_port("127.0.0.1"),
                    cluster_port=free_port("127.0.0.1"),
                )
                for name in ("a", "b", "c")
            )
            description = Description(
                cohort="test", hosts=("127.0.0.1",), devices=("wearable-1",), nodes=nodes
            )
            folder = SiteFolder.create(tmp_path / f"site-{attempt}", description)
            generate("nats", folder, tmp_path / f"out-{attempt}")
            started = [ClusterNode(folder, node, tmp_path / f"out-{attempt}") for node in nodes]
            try:
                for node in started:
                    stack.callback(node.kill)  # a cluster that shuts down in good order takes its time
                    node.start()
            except Problem:
                continue
            yield started
            return


def everywhere(cluster: list[ClusterNode], name: str, *, first: int = 0) -> list[Endpoint]:
    return [node.endpoint(name) for node in (*cluster[first:], *cluster[:first])]


def test_nothing_acknowledged_is_lost_when_a_node_dies(cluster: list[ClusterNode]) -> None:
    """The writer's node is killed (-9) in the middle: what was acknowledged arrives, what was not is sent again by
    the sender, and in the end every number is there. Order and uniqueness are not promised."""
    count, received, acknowledged = 1500, set[int](), set[int]()
    calibrator = Connection(
        endpoints=everywhere(cluster, "calibrator"),
        client_id="calibrator",
        subscriptions=[T.all("z")],
        on_message=lambda _topic, payload, _retained: received.add(int(payload)),
    )
    device = Connection(endpoints=everywhere(cluster, "wearable-1", first=1), client_id="wearable-1")
    for each in (calibrator, device):
        each.start()
        assert each.wait_connected(ELECTION), each.last_error

    def send(numbers: list[int]) -> None:
        for number in numbers:
            while True:
                try:
                    device.publish(BATCH, b"%d" % number, on_acknowledged=partial(acknowledged.add, number))
                except Offline:
                    wait_for(
                        lambda: device.connected and device.in_flight < 50, "the way to be free", ELECTION
                    )
                else:
                    break

    send(list(range(count // 2)))
    cluster[1].kill()
    send(list(range(count // 2, count)))
    wait_for(lambda: device.connected and device.in_flight == 0, "the last acknowledgement", ELECTION)
    wait_for(lambda: acknowledged <= received, "all that was acknowledged", ELECTION)
    # What broke with the connection was never acknowledged; the outbox, here this line, sends it again.
    send(sorted(set(range(count)) - acknowledged))
    wait_for(lambda: received == set(range(count)), "every number", ELECTION)
    for each in (calibrator, device):
        each.stop()
