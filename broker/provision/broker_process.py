"""A broker as a child process: started once it accepts MQTT, and ended with its parent."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, Self

from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import Endpoint, Tls
from hushmq.broker.provision.access_rights import ServerTls, Site

TRIES = 5
"""How often another free port is tried when a different process takes the port first."""

_PR_SET_PDEATHSIG = 1
_CONNECT = bytes.fromhex("100c00044d5154540402003c0000")
"""MQTT CONNECT without client id or credentials: any answer shows that the broker accepts MQTT."""


class PortTakenError(Exception):
    """Raised when another process uses the port."""


def find_executable(name: str, install: str, *folders: Path) -> Path:
    """Return an executable from the folders or PATH; raise Problem that says what to install."""
    for folder in folders:
        if (candidate := folder / name).is_file() and os.access(candidate, os.X_OK):
            return candidate
    if found := shutil.which(name):
        return Path(found)
    raise Problem(f"{name} is not installed: {install}")


def free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, atomically."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


class BrokerProcess(ABC):
    """Starts, reloads and stops a NATS or Mosquitto broker.

    On Linux the kernel kills the child when the thread that called `start` ends: start it from a thread that runs as
    long as the broker should.
    """

    ready: ClassVar[str]
    """Text that the broker logs when it has started."""
    reloaded: ClassVar[str]
    """Text that the broker logs when it has reloaded its configuration."""

    def __init__(
        self,
        site: Site,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        tls: ServerTls | None = None,
        websocket_port: int | None = None,
    ) -> None:
        self.site = site
        self.folder = folder.absolute()
        self.host = host
        self.tls = tls
        self.websocket_port = websocket_port
        self._fixed = port is not None
        self.port = free_port(host) if port is None else port
        self._child: subprocess.Popen[bytes] | None = None
        self._log_begin = 0

    @abstractmethod
    def command(self) -> list[str]:
        """Write the configuration for the present port, and return the command that starts the broker with it."""

    @property
    def pid(self) -> int | None:
        return None if self._child is None or self._child.poll() is not None else self._child.pid

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    def start(self, timeout: float = 10.0) -> None:
        """Return once the broker accepts MQTT; raise Problem when it cannot run."""
        if self.pid is not None:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for tries_left in reversed(range(TRIES)):
            try:
                self._start_once(timeout)
            except PortTakenError:
                if self._fixed or not tries_left:
                    raise Problem(f"port {self.port} on {self.host} is in use: choose another one") from None
                self.port = free_port(self.host)
            else:
                # Clients know this port from now on, so a restart must use it again.
                self._fixed = True
                return

    def _start_once(self, timeout: float) -> None:
        self._check_port()
        command = self.command()
        with self.log.open("ab") as log:
            self._log_begin = log.tell()
            self._child = spawn(command, log=log, folder=self.folder)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            logged = self._logged()
            if self._child.poll() is not None:
                if "address already in use" in logged.lower():
                    raise PortTakenError
                raise Problem(
                    f"{Path(command[0]).name} ended at start: {self.last_log_line()} (log: {self.log})"
                )
            if self.ready in logged and self._answers():
                return
            time.sleep(0.01)
        self.kill()
        raise Problem(f"{Path(command[0]).name} did not accept MQTT within {timeout:g} s (log: {self.log})")

    def _logged(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_begin)
            return log.read().decode(errors="replace")

    def last_log_line(self) -> str:
        """Return the last line that the broker has logged since it was started."""
        lines = [line.strip() for line in self._logged().splitlines() if line.strip()]
        return lines[-1] if lines else "it logged nothing"

    def _check_port(self) -> None:
        with socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, self.port))
            except OSError as error:
                if error.errno == 98:
                    raise PortTakenError from None
                raise Problem(f"port {self.port} on {self.host}: {error.strerror}") from None

    def _answers(self) -> bool:
        """Whether the listener answers a CONNECT in any way: a refusal or, with TLS, a closed socket will do."""
        try:
            with socket.create_connection((self.host, self.port), timeout=1.0) as probe:
                probe.sendall(_CONNECT)
                probe.recv(4)
        except ConnectionResetError:
            return True
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Terminate the broker; kill it after two seconds."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(2.0)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill the broker with SIGKILL, without letting it flush anything."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def reload(self, site: Site) -> None:
        """Apply another site while running: identities that are no longer in it are disconnected."""
        self.site = site
        command = self.command()
        if self._child is None or self.pid is None:
            return
        before = self._logged().count(self.reloaded)
        self._child.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10.0
        while self._logged().count(self.reloaded) == before:
            if time.monotonic() > deadline or self.pid is None:
                raise Problem(
                    f"{Path(command[0]).name} did not apply the changed site: {self.last_log_line()}"
                )
            time.sleep(0.01)

    def endpoint(self, name: str) -> Endpoint:
        """Return the endpoint with which the identity of that name connects."""
        identity = self.site.identity(name)
        if self.tls is not None and self.tls.identities is not None:
            folder = self.tls.identities
            mutual = Tls(self.tls.ca, certificate=folder / f"{name}.pem", key=folder / f"{name}.key")
            return Endpoint(self.host, self.port, tls=mutual)
        tls = None if self.tls is None else Tls(self.tls.ca)
        return Endpoint(self.host, self.port, username=name, password=identity.password, tls=tls)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def spawn(command: Sequence[str], *, log: BinaryIO, folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a child that ends with its parent, in a session of its own, so that Ctrl-C does not reach it directly."""
    with _held_back() as interrupts:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509  # it makes one system call and takes no lock
        )
    if interrupts:
        child.kill()
        child.wait()
        signal.raise_signal(interrupts[0])
    return child


@contextmanager
def _held_back() -> Iterator[list[int]]:
    """Collect signals instead of raising them: within Popen, an exception would leave an unknown child running."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came  # interrupts are raised in the main thread only
        return
    before = {
        name: signal.signal(name, lambda number, _: came.append(number))
        for name in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield came
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


def die_with_parent() -> Callable[[], None] | None:
    """Return what a child calls before exec, so that it ends with the thread that started it (Linux only)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return ask
