"""The console of the demo: a process on loopback, with an operator and a viewer whose passwords are shown."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.console.access.users_file import UserRole, UsersFile
from hushmq.demo.demo_plan import CONSOLE, BrokerAddress, DemoPlan, write_console
from hushmq.setup.child_processes import ChildProcesses

USERS: dict[str, UserRole] = {"operator": "operator", "viewer": "viewer"}
PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class DemoConsole:
    """Where the demo's console is, and with which password both users log in."""

    url: str
    password: str

    def in_words(self) -> str:
        return f"console: {self.url}  name: operator (or viewer)  password: {self.password}"


def start_console(
    processes: ChildProcesses, plan: DemoPlan, address: BrokerAddress, folder: Path
) -> DemoConsole:
    """Start the console and wait until it serves; Problem if it does not."""
    password = secrets.token_urlsafe(9)
    config = write_console(plan, address, folder)
    users = UsersFile(folder / CONSOLE / "users.json")
    for name, role in USERS.items():
        users.add(name, role, password)
    log = folder / CONSOLE / "log"
    process = processes.add(CONSOLE, ["console", "run", "--config", str(config)], log)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.alive:
        found = re.search(r"the console is at (\S+)", log.read_text(errors="replace"))
        if found is not None:
            return DemoConsole(found[1], password)
        time.sleep(0.05)
    raise Problem(f"the console does not start: {process.last_log_line()}")
