"""The brokers of a large fleet: a NATS cluster of three, or Mosquitto; a gateway may speak for every device."""

from __future__ import annotations

import json
import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.provision import nats
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import free_port, spawn
from hushmq.broker.provision.mosquitto import MosquittoServer, acl_file
from tests.calibrator.site import wait_until

SECRET = "secret"  # noqa: S105  # of brokers on this machine, for an hour
GATEWAY = "gateway"
EVERYWHERE = "0.0.0.0"  # noqa: S104  # for a worker in a network namespace


def fleet_of(cohorts: list[str], workers: int) -> Site:
    """A site with these cohorts, and workers worker-0, worker-1, …"""
    return Site(
        cohort=cohorts[0],
        other_cohorts=tuple(cohorts[1:]),
        identities=tuple(
            Identity("calibrator", name, SECRET)
            for name in (GATEWAY, *(f"worker-{n}" for n in range(workers)))
        ),
    )


class FleetBrokers(ABC):
    """One or several nodes, by number."""

    ports: list[int]

    @abstractmethod
    def start(self, number: int) -> None:
        """Start a node."""

    @abstractmethod
    def kill(self, number: int) -> None:
        """Kill a node with SIGKILL."""

    def terminate(self, number: int) -> None:
        """Stop a node in good order, as for an upgrade."""
        self.kill(number)

    def start_all(self) -> None:
        for number in range(len(self.ports)):
            self.start(number)

    def stop(self) -> None:
        for number in range(len(self.ports)):
            self.kill(number)

    def endpoints(self, user: str, first: int = 0) -> list[Endpoint]:
        """How a user reaches the nodes, beginning with one of them."""
        ports = [self.ports[(first + n) % len(self.ports)] for n in range(len(self.ports))]
        return [Endpoint.parse(f"mqtt://127.0.0.1:{port}", username=user, password=SECRET) for port in ports]


class NatsNodes(FleetBrokers):
    """A cluster of three, with the configuration that `hushmq broker config nats` writes, and the gateway."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.ports = [free_port("127.0.0.1") for _ in range(3)]
        routes = [free_port("127.0.0.1") for _ in range(3)]
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._files = [folder / f"n{number}.conf" for number in range(3)]
        peers = tuple(f"127.0.0.1:{one}" for one in routes)
        for number, port in enumerate(self.ports):
            text = nats.configuration(
                site,
                host=EVERYWHERE,
                port=port,
                store=folder / f"n{number}",
                cluster=nats.Cluster(f"n{number}", "127.0.0.1", routes[number], peers, SECRET),
            )
            tree = json.loads(text)
            for user in tree["authorization"]["users"]:
                if user["user"] == GATEWAY:
                    del user["permissions"]
            self._files[number].write_text(json.dumps(tree))

    def start(self, number: int) -> None:
        with self._files[number].with_suffix(".log").open("ab") as log:
            self._children[number] = spawn([str(nats.executable()), "-c", str(self._files[number])], log=log)

    def kill(self, number: int) -> None:
        child = self._children.pop(number, None)
        if child is not None:
            child.kill()
            child.wait()

    def terminate(self, number: int) -> None:
        """Stop a node in good order, and wait until it has ended."""
        child = self._children.pop(number)
        child.terminate()
        wait_until(lambda: child.poll() is not None)


class OneMosquitto(FleetBrokers):
    """Mosquitto as it is generated, and the gateway."""

    def __init__(self, folder: Path, site: Site) -> None:
        self._server = _OpenMosquitto(site, folder / "mosquitto", host=EVERYWHERE)
        self.ports = [self._server.port]

    def start(self, number: int) -> None:
        assert number == 0
        self._server.start(60)

    def kill(self, number: int) -> None:
        assert number == 0
        self._server.kill()


class _OpenMosquitto(MosquittoServer):
    """Lets the gateway publish and read everything."""

    def write_configuration(self) -> Path:
        file = super().write_configuration()
        with (self.folder / "acl").open("w") as acl:
            acl.write(f"{acl_file(self.site)}\nuser {GATEWAY}\ntopic readwrite #\n")
        return file
