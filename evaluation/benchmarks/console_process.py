"""A console in a process of its own, and somebody who looks at it: for benchmarks."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from hushmq.broker.provision.broker_process import write_private
from hushmq.console.access.users_file import UsersFile

NAME, PASSWORD = "ann", "operator-password"  # of a console that lives for a minute, on loopback
PATIENCE_S = 60.0


@dataclass(slots=True)
class RunningConsole:
    """A console, and an operator who is logged in."""

    pid: int
    host: str
    cookie: str = ""

    def login(self) -> None:
        form = urlencode({"name": NAME, "password": PASSWORD})
        link = self._link()
        link.request("POST", "/login", form, {"Content-Type": "application/x-www-form-urlencoded"})
        self.cookie = (link.getresponse().headers["Set-Cookie"] or "").partition(";")[0]
        link.close()

    def get(self, path: str) -> str:
        """A page."""
        link = self._link()
        link.request("GET", path, headers={"Cookie": self.cookie})
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{path} answers {answer.status}")
        return text

    @contextmanager
    def events(self, page: str) -> Iterator[Iterator[str]]:
        """The lines of a page's live updates."""
        link = self._link()
        link.request("GET", f"/live/{page}", headers={"Cookie": self.cookie})
        answer = link.getresponse()
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"/live/{page} answers {answer.status}")
        try:
            yield (line.decode() for line in answer)
        finally:
            link.close()

    def processor_s(self) -> float:
        """What the process has used so far, in steps of a hundredth of a second."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        """Resident memory, MiB."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def _link(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, timeout=PATIENCE_S)


@contextmanager
def running_console(
    folder: Path, *, broker: str, cohort: str, database: str, ops: str, calibrator: str
) -> Iterator[RunningConsole]:
    """Start a console whose identity at the broker is "console" with the password "secret", and log in."""
    folder.mkdir()
    write_private(folder / "password", "secret\n")
    settings = {
        "cohort": cohort,
        "database": database,
        "port": 0,
        "users_file": str(folder / "users.json"),
        "log_file": str(folder / "log.jsonl"),
    }
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    lines += ["[broker]", f'urls = ["{broker}"]', 'username = "console"']
    lines += [f"password_file = {json.dumps(str(folder / 'password'))}"]
    lines += ["[keys]", f'ops_keys = ["{ops}"]', f'calibrator_keys = ["{calibrator}"]']
    (folder / "console.toml").write_text("\n".join(lines), encoding="utf-8")
    UsersFile(folder / "users.json").add(NAME, "operator", PASSWORD)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "hushmq", "console", "run", "--config", str(folder / "console.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        said = process.stdout.readline() if process.stdout else ""
        if "http" not in said:
            raise RuntimeError("the console does not start")
        console = RunningConsole(process.pid, said.split("//")[1].strip().rstrip("/"))
        console.login()
        yield console
    finally:
        process.kill()
        process.communicate()


@contextmanager
def visited(console: RunningConsole, pages: tuple[str, ...], every_s: float) -> Iterator[threading.Event]:
    """Somebody opens these pages in turn; while the event is set, the console is left alone."""
    away, done = threading.Event(), threading.Event()

    def visit() -> None:
        turn = 0
        while not done.wait(every_s):
            if not away.is_set():
                console.get(pages[turn % len(pages)])
                turn += 1

    thread = threading.Thread(target=visit)
    thread.start()
    try:
        yield away
    finally:
        done.set()
        thread.join()
