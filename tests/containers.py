"""Mosquitto in a container, for machines that have Docker but no Mosquitto."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from hushmq.broker.provision.mosquitto import MosquittoServer

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

IMAGE = "eclipse-mosquitto:2.0"


def docker_answers() -> bool:
    """Whether a Docker engine is there to run containers."""
    if shutil.which("docker") is None:
        return False
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


class MosquittoContainer(MosquittoServer):
    """The same server with the same generated files, run by Docker on the host's network."""

    _container: DockerContainer | None = None

    def start(self, timeout: float = 30.0) -> None:
        from testcontainers.core.container import DockerContainer
        from testcontainers.core.waiting_utils import wait_for_logs

        if self._container is not None:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._container = (
            DockerContainer(IMAGE)
            .with_volume_mapping(str(self.folder), str(self.folder), "rw")
            .with_kwargs(network_mode="host", user="root")
            .with_command(["mosquitto", "-c", str(self.write_configuration())])
        )
        self._container.start()
        wait_for_logs(self._container, "running", timeout=timeout)

    @property
    def pid(self) -> int | None:
        if self._container is None:
            return None
        return int(self._container.get_wrapped_container().attrs["State"]["Pid"]) or None

    def stop(self) -> None:
        if self._container is not None:
            self._container.stop()
            self._container = None

    def kill(self) -> None:
        if self._container is not None:
            self._container.get_wrapped_container().kill()
            self.stop()
