"""A broker as a child process: started when it accepts MQTT, and gone when its parent is."""

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
"""How often a free port is looked for anew when somebody else takes it in between."""

_PR_SET_PDEATHSIG = 1
_CONNECT = bytes.fromhex("100c00044d5154540402003c0000")
"""MQTT CONNECT without client id or credentials: the answer does not matter, that there is one does."""


class PortTakenError(Exception):
    """Raised when the port belongs to somebody else."""


def find_executable(name: str, install: str, *folders: Path) -> Path:
    """The executable, looked for in the folders and then on PATH; Problem says what to install."""
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
    """Replace a file that only its owner may read."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


class BrokerProcess(ABC):
    """What NATS and Mosquitto have in common when we run them.

    The operating system ends the child when the thread that called `start` ends (Linux), so start it from a
    thread that lives as long as the broker should.
    """

    ready: ClassVar[str]
    """Words in the log that say it is up."""
    reloaded: ClassVar[str]
    """Words in the log that say it has read its configuration again."""

    def __init__(
        self,
        site: Site,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        self.site = site
        self.folder = folder.absolute()
        self.host = host
        self.tls = tls
        self._fixed = port is not None
        self.port = free_port(host) if port is None else port
        self._child: subprocess.Popen[bytes] | None = None
        self._log_begin = 0

    @abstractmethod
    def command(self) -> list[str]:
        """Write the configuration for the present port and say how to start the broker with it."""

    @property
    def pid(self) -> int | None:
        return None if self._child is None or self._child.poll() is not None else self._child.pid

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    def start(self, timeout: float = 10.0) -> None:
        """Return when it accepts MQTT; Problem when it cannot run."""
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
                # From now on others know this port: a restart has to come back on it.
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
            said = self._said()
            if self._child.poll() is not None:
                if "address already in use" in said.lower():
                    raise PortTakenError
                raise Problem(
                    f"{Path(command[0]).name} ended at start: {self.last_words()} (log: {self.log})"
                )
            if self.ready in said and self._answers():
                return
            time.sleep(0.01)
        self.kill()
        raise Problem(f"{Path(command[0]).name} did not accept MQTT within {timeout:g} s (log: {self.log})")

    def _said(self) -> str:
        with self.log.open("rb") as log:
            log.seek(self._log_begin)
            return log.read().decode(errors="replace")

    def last_words(self) -> str:
        """The last line that it has logged since it was started."""
        lines = [line.strip() for line in self._said().splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"

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
        """Whether the listener says anything to a CONNECT, be it a refusal or (with TLS) a closed socket."""
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
        """End it in good order; kill it when that takes longer than two seconds."""
        if self._child is None:
            return
        self._child.terminate()
        try:
            self._child.wait(2.0)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def reload(self, site: Site) -> None:
        """Take over another description while running: who is no longer in it loses the connection."""
        self.site = site
        command = self.command()
        if self._child is None or self.pid is None:
            return
        before = self._said().count(self.reloaded)
        self._child.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10.0
        while self._said().count(self.reloaded) == before:
            if time.monotonic() > deadline or self.pid is None:
                raise Problem(f"{Path(command[0]).name} did not take over the site: {self.last_words()}")
            time.sleep(0.01)

    def endpoint(self, name: str) -> Endpoint:
        """How the identity of that name connects."""
        identity = self.site.identity(name)
        if self.tls is not None and self.tls.identities is not None:
            folder = self.tls.identities
            own = Tls(self.tls.ca, certificate=folder / f"{name}.pem", key=folder / f"{name}.key")
            return Endpoint(self.host, self.port, tls=own)
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
    """Start a child that ends when its parent does, and that Ctrl-C in the terminal reaches only through us."""
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
    """Collect the interrupts that come meanwhile: raised within Popen, one would leave a child that nobody knows."""
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
    """What a child calls before it starts, so that it ends with the thread that started it (Linux)."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return ask
