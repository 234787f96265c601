"""A generated cluster of three NATS nodes with TLS between them, of which one is killed under load."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from hushmq.broker.contract.messages import Seen, decode, encode
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.provision import nats
from hushmq.broker.provision.broker_process import BrokerProcess, free_port
from hushmq.broker.provision.generate import generate
from hushmq.broker.provision.site_description import Description, Node
from hushmq.broker.provision.site_folder import SiteFolder
from hushmq.demo.demo_plan import STREAM, BrokerAddress, DemoPlan, make_plan, write_agent, write_calibrator
from hushmq.setup.child_processes import ChildProcesses
from tests.broker.scripted import wait_for

ELECTION = 60.0
"""Maximum seconds until a cluster that starts or has lost a node accepts clients again; usually a few."""


class ClusterNode(BrokerProcess):
    """One node, started from its generated folder."""

    ready = "Server is ready"

    def __init__(self, folder: SiteFolder, node: Node, out: Path) -> None:
        self.site_folder = folder
        super().__init__(
            folder.site(), out / node.name, host=node.host, port=node.port, tls=folder.server_tls()
        )

    def command(self) -> list[str]:
        return [str(nats.executable()), "-c", str(self.folder / "nats.conf")]


@pytest.fixture
def plan() -> DemoPlan:
    """Two simulated wearables, as the demo plays them."""
    return make_plan(agents=2, epsilon=4.0, now=time.time())


@pytest.fixture
def cluster(tmp_path: Path, plan: DemoPlan) -> Iterator[list[ClusterNode]]:
    for attempt in range(3):  # six free ports at once: another process may take one of them first
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
            devices = tuple(wearable.name for wearable in plan.wearables)
            description = Description(cohort=plan.cohort, hosts=("127.0.0.1",), devices=devices, nodes=nodes)
            folder = SiteFolder.create(tmp_path / f"site-{attempt}", description)
            generate("nats", folder, tmp_path / f"out-{attempt}")
            started = [ClusterNode(folder, node, tmp_path / f"out-{attempt}") for node in nodes]
            try:
                for node in started:
                    stack.callback(node.kill)  # an orderly shutdown of a cluster takes long
                    node.start()
            except Problem:
                continue
            yield started
            return


def everywhere(cluster: list[ClusterNode], name: str, *, first: int = 0) -> list[Endpoint]:
    return [node.endpoint(name) for node in (*cluster[first:], *cluster[:first])]


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_a_node_dies(cluster: list[ClusterNode]) -> None:
    """The writer's node is killed (-9) in the middle: what was acknowledged arrives, what was not is sent again by
    the sender, and in the end every number is there. Order and uniqueness are not promised."""
    count, received, acknowledged = 1500, set[int](), set[int]()
    topics = Topics(cluster[0].site.cohort)
    topic = topics.batch("wearable-1", "motion")
    calibrator = Connection(
        endpoints=everywhere(cluster, "calibrator"),
        client_id="calibrator",
        subscriptions=[topics.all("z")],
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
                    device.publish(topic, b"%d" % number, on_acknowledged=partial(acknowledged.add, number))
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
    # Messages lost with the connection were never acknowledged; the outbox, here this line, sends them again.
    send(sorted(set(range(count)) - acknowledged))
    wait_for(lambda: received == set(range(count)), "every number", ELECTION)
    for each in (calibrator, device):
        each.stop()


def with_our_broker(config: Path, section: str) -> Path:
    """Return the settings file with its `[broker]` section replaced by the one that the site hands out."""
    sections = re.split(r"\n(?=\[)", config.read_text())
    rest = "\n".join(each for each in sections if not each.startswith("[broker]"))
    config.write_text(f"{rest}\n{section}")
    return config


@pytest.mark.slow
def test_agents_and_calibrator_live_through_the_death_of_a_node(
    cluster: list[ClusterNode], plan: DemoPlan, tmp_path: Path
) -> None:
    """Real agents and a real calibrator, TLS, three addresses each: after a node is killed, every tick from the first
    one on is counted, without a hole."""
    folder = cluster[0].site_folder
    topics = Topics(plan.cohort)
    seen = dict[str, Seen]()

    def hear(topic: str, payload: bytes, _retained: bool) -> None:
        seen[topic.rsplit("/", 1)[1]] = decode(Seen, payload)

    def highest(device: str) -> int:
        return (
            seen[device].streams[STREAM].highest if device in seen and STREAM in seen[device].streams else 0
        )

    ops = Connection(
        endpoints=everywhere(cluster, "ops"),
        client_id="ops",
        subscriptions=[topics.all("seen")],
        on_message=hear,
    )
    processes = ChildProcesses()
    devices = [wearable.name for wearable in plan.wearables]
    try:
        ops.start()
        assert ops.wait_connected(ELECTION), ops.last_error
        nowhere = BrokerAddress("mqtt://127.0.0.1")
        configs = {"calibrator": write_calibrator(plan, nowhere, tmp_path)}
        configs |= {
            wearable.name: write_agent(plan, wearable, nowhere, tmp_path) for wearable in plan.wearables
        }
        for name, config in configs.items():
            file = with_our_broker(config, folder.hand_out(name, config.parent / "from-site"))
            part = "calibrator" if name == "calibrator" else "agent"
            processes.add(name, [part, "run", "--config", str(file)], tmp_path / f"{name}.log")
        published = threading.Event()
        payload = encode(plan.ops_key.sign(plan.policy))
        ops.publish(topics.policy, payload, retain=True, on_acknowledged=published.set)
        assert published.wait(ELECTION)
        wait_for(lambda: all(highest(name) for name in devices), "the first ticks to be counted", ELECTION)
        cluster[1].kill()
        killed_at = int(time.time() * 1000)  # a tick is a millisecond here
        wait_for(lambda: all(highest(name) > killed_at + 2000 for name in devices), "later ticks", ELECTION)

        def whole(device: str) -> bool:
            """Whether the only holes are the one before the first tick, and perhaps one that is just being filled."""
            holes = seen[device].streams[STREAM].holes
            return all(first == 0 or first > killed_at + 2000 for first, _ in holes)

        wait_for(lambda: all(whole(name) for name in devices), "the holes to be filled", ELECTION)
    finally:
        processes.stop(patience=2.0)
        ops.stop()
