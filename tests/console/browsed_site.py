"""A small real site for the console's tests: a broker, a calibrator, agents and the console, a process each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.nats import NatsServer
from hushmq.console.access.users_file import UsersFile
from hushmq.demo.demo_console import start_console
from hushmq.demo.demo_plan import (
    CALIBRATOR,
    CONSOLE,
    OPS,
    BrokerAddress,
    DemoPlan,
    make_plan,
    write_agent,
    write_calibrator,
)
from hushmq.setup.child_processes import ChildProcess, ChildProcesses
from tests.console.conftest import PASSWORDS


def wait_for(condition: Callable[[], object], timeout: float = 60.0) -> None:
    """Wait for a condition, and fail when it does not come."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come about in time"
        time.sleep(0.05)


@dataclass(slots=True)
class BrowsedSite:
    """The site at hand."""

    folder: Path
    plan: DemoPlan
    server: NatsServer
    processes: ChildProcesses
    url: str = ""
    agents: dict[str, ChildProcess] = field(default_factory=dict)

    def push(self, policy: Policy) -> None:
        """Publish a policy as ops."""
        topics = Topics(self.plan.cohort)
        connection = Connection(endpoints=[self.server.endpoint(OPS)], client_id="push", keep_session=False)
        connection.start()
        try:
            assert connection.wait_connected(20)
            connection.publish(topics.policy, encode(self.plan.ops_key.sign(policy)), retain=True)
            wait_for(lambda: connection.in_flight == 0)
        finally:
            connection.stop()

    def stop_agent(self, name: str) -> None:
        process = self.agents[name].process
        assert process is not None
        process.terminate()
        process.wait(20)

    def start_agent(self, name: str) -> None:
        self.agents[name].start()


@contextlib.contextmanager
def browsed_site(folder: Path, *, agents: int = 3) -> Iterator[BrowsedSite]:
    """Start everything, and stop it in the end."""
    plan = make_plan(agents=agents, epsilon=4.0, now=time.time())
    with contextlib.ExitStack() as leaving:
        server = leaving.enter_context(NatsServer(plan.site, folder / "broker"))
        address = BrokerAddress(f"mqtt://{server.host}:{server.port}")
        processes = ChildProcesses()
        leaving.callback(processes.stop, patience=5.0)
        site = BrowsedSite(folder, plan, server, processes)
        site.push(plan.policy)
        config = write_calibrator(plan, address, folder)
        processes.add(CALIBRATOR, ["calibrator", "run", "--config", str(config)], folder / CALIBRATOR / "log")
        for wearable in plan.wearables:
            config = write_agent(plan, wearable, address, folder)
            site.agents[wearable.name] = processes.add(
                wearable.name, ["agent", "run", "--config", str(config)], folder / wearable.name / "log"
            )
        site.url = start_console(processes, plan, address, folder).url.rstrip("/")
        users = UsersFile(folder / CONSOLE / "users.json")
        users.add("ann", "operator", PASSWORDS["ann"])
        users.add("vic", "viewer", PASSWORDS["vic"])
        yield site
