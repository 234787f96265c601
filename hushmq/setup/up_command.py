"""`hushmq up`: run a whole site on this machine, until interrupted; or write what systemd or compose need to run it."""

from __future__ import annotations

import argparse
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from hushmq.broker.commands.rollout import Watcher
from hushmq.broker.commands.watch_command import message_line
from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.service.log import logger
from hushmq.setup.child_processes import ChildProcesses
from hushmq.setup.household import OPS, Household
from hushmq.setup.printed_units import compose_file, systemd_units
from hushmq.setup.renewed_disclosure import RenewedDisclosure

EXAMPLES = """Broker, calibrator, console and the devices of `hushmq device add --here`, each a process with its log in
SITE/log; one that ends is started again. The first time, SITE/policy.toml is signed and published. Releases are printed
as they come.

examples:
  hushmq up home
  hushmq up home --print systemd --out /etc/systemd/system
  hushmq up home --print compose > compose.yaml"""
READY_S = 20.0
"""How long the broker may take to let ops in."""
TURN_S = 0.5
PATIENCE_S = 6.0
"""How long processes may take to end: agents wait for what they have sent to be counted."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("site", type=Path, metavar="SITE", help="the site's folder, as hushmq init made it")
    parser.add_argument("--print", choices=("systemd", "compose"), help="write units instead of running")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="with --print: write files into this folder"
    )
    parser.add_argument(
        "--user", help="with --print systemd: the user of the units (default: whoever runs this)"
    )
    parser.add_argument(
        "--no-console", action="store_true", help="do not start the console, the web page of the site"
    )
    parser.add_argument("--json", action="store_true", help="print releases as JSON, one a line")


def run(args: argparse.Namespace) -> int:
    household = Household.open(args.site)
    if args.print is not None:
        return _print(household, args)
    if args.out is not None or args.user is not None:
        raise Problem("--out and --user belong to --print")
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    _Up(household, stopping, as_json=args.json, with_console=not args.no_console).run()
    return 0


class _Up:
    """The processes of one site, and the connection through which it is watched."""

    def __init__(
        self, household: Household, stopping: threading.Event, *, as_json: bool, with_console: bool
    ) -> None:
        self._household = household
        self._stopping = stopping
        self._as_json = as_json
        self._with_console = with_console
        self._processes = ChildProcesses()
        self._disclosure: RenewedDisclosure | None = None
        self._arrived: queue.SimpleQueue[tuple[str, bytes, bool]] = queue.SimpleQueue()
        self._connection = Connection(
            endpoints=[household.folder.endpoint(OPS)],
            client_id=f"up-{household.cohort}-{time.monotonic_ns():x}",
            subscriptions=[Topics(household.cohort).all("release")],
            on_message=lambda topic, payload, retained: self._arrived.put((topic, payload, retained)),
            keep_session=False,
            log=logger("error"),
        )

    def run(self) -> None:
        path = self._household.path
        log = path / "log"
        log.mkdir(mode=0o700, exist_ok=True)
        try:
            console = self._console()
            self._start("broker", ["broker", "run", "--site", str(path)])
            self._wait_for_broker()
            self._say("broker", ", ".join([self._household.folder.local_url, *self._household.device_urls]))
            self._start("calibrator", ["calibrator", "run", "--config", str(self._household.calibrator_file)])
            self._say("calibrator", f"log: {log / 'calibrator.log'}")
            if console is not None:
                self._start("console", ["console", "run", "--config", str(console)])
                self._disclosure = RenewedDisclosure(
                    self._household.calibrator_file,
                    console.parent / "disclosure.json",
                    log / "disclosure.log",
                )
            self._publish_first_policy()
            self._say("", "Ctrl-C stops everything")
            while not self._stopping.wait(TURN_S):
                self._turn()
        finally:
            self._connection.stop()
            self._stop()

    def _console(self) -> Path | None:
        """Return the console's settings, made the first time; None where it is not wanted or not installed.

        It has an identity at the broker, which is there before the broker starts.
        """
        path = self._household.path
        settings = path / "console" / "console.toml"
        if not self._with_console:
            return None
        if find_spec("starlette") is None or find_spec("uvicorn") is None:
            self._say("console", "not installed: pip install 'hushmq[console]'")
            return None
        if settings.exists():
            self._say("console", f"{self._console_address(settings)}  (settings: {settings})")
            return settings
        where = ["--site", str(path), "--calibrator", str(self._household.calibrator_file)]
        made = subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                "hushmq",
                "console",
                "init",
                *where,
                "--out",
                str(settings.parent),
                "--json",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            self._say("console", f"not started: {made.stderr.strip()}")
            return None
        found = json.loads(made.stdout)
        self._say("console", f"{found['url']}  user: {found['user']}  password: {found['password']}")
        if found["ca"] is not None:
            self._say("", f"browsers trust it once they have {found['ca']} as an authority")
        return settings

    def _console_address(self, settings: Path) -> str:
        from hushmq.console.console_config import load_console  # noqa: PLC0415  # needs the extra `console`

        config = load_console(settings)
        host = config.hosts[0] if config.hosts else config.listen
        return f"{'http' if config.tls is None else 'https'}://{host}:{config.port}/"

    def _start(self, name: str, command: list[str]) -> None:
        self._processes.add(name, command, self._household.path / "log" / f"{name}.log")

    def _wait_for_broker(self) -> None:
        """Return once the broker lets ops in; raise Problem with its last words when it ends before."""
        self._connection.start()
        deadline = time.monotonic() + READY_S
        while not self._connection.wait_connected(0.2):
            self._processes.check_alive("broker")
            if self._stopping.is_set():
                return
            if time.monotonic() > deadline:
                raise Problem(f"the broker does not let ops in: {self._connection.last_error or 'no answer'}")

    def _publish_first_policy(self) -> None:
        """Sign and publish the site's policy if the broker has none yet, and say what is in force."""
        household = self._household
        watcher = Watcher([household.folder.endpoint(OPS)], household.cohort)
        try:
            watcher.open()
            if watcher.received.policy_version:
                self._say("policy", f"version {watcher.received.policy_version} is in force")
            elif not household.ops_key.exists():
                self._say(
                    "policy",
                    f"none yet: hushmq push {household.policy_file} --site {household.path} --key OPS.KEY",
                )
            else:
                policy = household.policy()
                key = PrivateKey.load(household.ops_key)
                watcher.publish(policy, encode(key.sign(policy)), timeout=5.0)
                self._say("policy", f"{household.policy_file} is published, signed with {household.ops_key}")
        finally:
            watcher.close()

    def _turn(self) -> None:
        """Start what has ended or been added, stop what has been removed, and print what has arrived."""
        household = self._household
        here = household.here()
        running = self._processes.names()
        for name, settings in here.items():
            if f"device-{name}" not in running:
                self._start(f"device-{name}", ["agent", "run", "--config", str(settings)])
                log = household.path / "log" / f"device-{name}.log"
                self._say("device", f"{name} runs here (log: {log})")
        gone = [
            name
            for name in running
            if name.startswith("device-") and name.removeprefix("device-") not in here
        ]
        self._processes.stop(gone, patience=PATIENCE_S)
        for one in self._processes.restart_in_time():
            self._say(one.name, f"ended and will be started again: {one.last_log_line()}")
        if self._disclosure is not None:
            self._disclosure.turn()
        while not self._arrived.empty():
            line = message_line(*self._arrived.get(), as_json=self._as_json)
            if line is not None:
                print(line, flush=True)

    def _stop(self) -> None:
        """Devices first, so that what they have sent is counted; the broker last."""
        if self._disclosure is not None:
            self._disclosure.stop()
        names = self._processes.names()
        self._processes.stop([name for name in names if name.startswith("device-")], patience=PATIENCE_S)
        self._processes.stop(["calibrator"], patience=PATIENCE_S)
        self._processes.stop(patience=PATIENCE_S)

    def _say(self, what: str, words: str) -> None:
        print(f"{what:<12}{words}", file=sys.stderr if self._as_json else sys.stdout, flush=True)


def _print(household: Household, args: argparse.Namespace) -> int:
    if args.print == "compose":
        files = {"compose.yaml": compose_file(household)}
    else:
        files = systemd_units(household, user=args.user)
    if args.out is None:
        print("\n".join(f"# {name}\n{text}" for name, text in files.items()), end="")
        return 0
    try:
        args.out.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (args.out / name).write_text(text)
            print(args.out / name)
    except OSError as error:
        raise Problem(f"--out: {error.filename}: {error.strerror}") from None
    return 0
