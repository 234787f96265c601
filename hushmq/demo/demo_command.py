"""The command line and the run of the demo, from the start of the processes to the verdict."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.live import Live

from hushmq.broker.commands.client_options import add_clear_text
from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.connection import Offline
from hushmq.broker.service.log import logger
from hushmq.demo import disk_accounts
from hushmq.demo.audience import Auditor, Subscriber
from hushmq.demo.demo_broker import PASSWORD_VARIABLE, DemoBroker
from hushmq.demo.demo_console import DemoConsole, start_console
from hushmq.demo.demo_plan import (
    CALIBRATOR,
    OPS,
    READER,
    STREAM,
    BrokerAddress,
    DemoPlan,
    make_plan,
    write_agent,
    write_calibrator,
)
from hushmq.demo.demo_view import WIDTH, Snapshot, render
from hushmq.demo.verdict import VerdictCheck, judge, loop_closed
from hushmq.setup.child_processes import ChildProcesses

SECONDS, CONSOLE_SECONDS = 30.0, 600.0
EXAMPLES = f"""examples:
  hushmq demo                               half a minute, eight wearables, a broker of its own
  hushmq demo --seconds 60 --agents 16      longer, with more devices
  hushmq demo --json                        one JSON object at the end, for scripts
  hushmq demo --keep                        leave the folder: databases, logs, settings files
  hushmq demo --console                     ten minutes, with the web page to watch it on
  hushmq demo --broker mqtts://me@nas       on your own broker (password in ${PASSWORD_VARIABLE}),
                                            where "me" may read and write hush/1/#

exit code 0 only if the loop closed: every tick accounted for, a tighter setting applied by every
agent, a release charged and published, the ledger within budget, nothing raw on any topic"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--seconds",
        type=float,
        help="how long to play (5 to 3600; default 30, with --console 600)",
    )
    parser.add_argument(
        "--agents", type=int, default=8, help="simulated wearables, a process each (3 to 64; default 8)"
    )
    parser.add_argument(
        "--epsilon",
        type=float,
        default=4.0,
        help="ε of the operator; the public gets half (0.5 to 10; default 4)",
    )
    parser.add_argument(
        "--console", action="store_true", help="serve the console on loopback meanwhile, and open a browser"
    )
    parser.add_argument("--until-closed", action="store_true", help="stop as soon as the loop has closed")
    parser.add_argument("--broker", metavar="URL", help="use this broker, mqtt[s]://[user@]host[:port]")
    parser.add_argument(
        "--ca",
        type=Path,
        metavar="FILE",
        help="authority that vouches for that broker, PEM (default: the system's)",
    )
    add_clear_text(parser)
    parser.add_argument("--port", type=int, help="port of the demo's own broker (default: a free one)")
    parser.add_argument("--keep", action="store_true", help="leave the folder for inspection")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object at the end and nothing else"
    )
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="save the last screen as a picture")


def run(args: argparse.Namespace) -> int:
    if args.seconds is None:
        args.seconds = CONSOLE_SECONDS if args.console else SECONDS
    _check(args)
    plan = make_plan(agents=args.agents, epsilon=args.epsilon, now=time.time())
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _folder(keep=args.keep, quiet=args.json) as folder:
            return _run_demo(args, plan, folder)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check(args: argparse.Namespace) -> None:
    for name, low, high in (("seconds", 5, 3600), ("agents", 3, 64), ("epsilon", 0.5, 10)):
        value = getattr(args, name)
        if not low <= value <= high:
            raise Problem(f"--{name}: {value:g} is out of range: {low} to {high}")
    if args.port is not None and not 1 <= args.port <= 65535:
        raise Problem(f"--port: {args.port} is out of range: 1 to 65535")
    if args.port is not None and args.broker is not None:
        raise Problem("--port belongs to the demo's own broker: leave it out with --broker")
    if args.ca is not None and args.broker is None:
        raise Problem("--ca belongs to a broker of your own: give --broker mqtts://… as well")
    if args.picture is not None:
        if args.picture.is_dir():
            raise Problem(f"--picture: {args.picture} is a folder: name a file in it")
        if not os.access(args.picture.absolute().parent, os.W_OK):
            raise Problem(f"--picture: {args.picture}: its folder cannot be written")


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@contextlib.contextmanager
def _folder(*, keep: bool, quiet: bool) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix="hushmq-demo-"))
    except OSError as error:
        raise Problem(f"no temporary folder can be made ({error.strerror}): set TMPDIR to one") from None
    try:
        yield folder
    finally:
        if keep:
            print(f"kept: {folder}", file=sys.stderr if quiet else sys.stdout)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _run_demo(args: argparse.Namespace, plan: DemoPlan, folder: Path) -> int:
    with contextlib.ExitStack() as leaving:
        log = logger("info", "json", leaving.enter_context((folder / "demo.log").open("w")))
        broker = DemoBroker.open(args, plan, folder)
        leaving.callback(broker.close)
        auditor = Auditor(plan, broker.endpoint(OPS), log)
        leaving.callback(auditor.connection.stop, timeout=0.5)
        if broker.server is None:
            leaving.callback(_clear_retained, auditor)
        began = time.monotonic()
        if (why := auditor.push_policy()) is not None:
            raise Problem(f"the broker at {broker.address.url} cannot be used: {why}")
        subscriber = Subscriber(plan, broker.endpoint(READER))
        leaving.callback(subscriber.stop)
        subscriber.start()
        processes = ChildProcesses()
        leaving.callback(processes.stop, patience=0.5)  # a killed process loses no data
        # Runs first: callbacks are called in reverse order.
        leaving.callback(_ignore_interrupts)
        _start_processes(processes, plan, broker.address, folder)
        if args.console:
            _open_console(start_console(processes, plan, broker.address, folder), quiet=args.json)
        snapshot, checks = _watch(args, plan, folder, processes, auditor, subscriber, broker, began)
    if args.json:
        print(json.dumps(_report(plan, snapshot, checks)))
    return 0 if all(check.passed for check in checks) else 1


def _ignore_interrupts() -> None:
    """Ignores further interrupts while the processes stop, which takes at most two seconds."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _start_processes(processes: ChildProcesses, plan: DemoPlan, address: BrokerAddress, folder: Path) -> None:
    config = write_calibrator(plan, address, folder)
    processes.add(CALIBRATOR, ["calibrator", "run", "--config", str(config)], folder / CALIBRATOR / "log")
    for wearable in plan.wearables:
        config = write_agent(plan, wearable, address, folder)
        processes.add(
            wearable.name, ["agent", "run", "--config", str(config)], folder / wearable.name / "log"
        )


def _open_console(console: DemoConsole, *, quiet: bool) -> None:
    """Says where the console is, and opens it where there is somebody to see it."""
    print(console.in_words(), file=sys.stderr if quiet else sys.stdout, flush=True)
    if sys.stdout.isatty():
        webbrowser.open(console.url)


class TrueFrequencies:
    """The true frequencies of released windows, known because the demo simulates the wearables."""

    def __init__(self, plan: DemoPlan) -> None:
        self._chains = [wearable.chain() for wearable in plan.wearables]
        self.frequencies: dict[int, float] = {}

    def learn(self, auditor: Auditor) -> None:
        for release in list(auditor.record.releases):
            if release.entry not in self.frequencies:
                first = max(release.first, self._chains[0].start_tick)
                count = release.last - first + 1
                ones = sum(chain.states(first, count).count(1) for chain in self._chains)
                self.frequencies[release.entry] = ones / (count * len(self._chains))


def _watch(
    args: argparse.Namespace,
    plan: DemoPlan,
    folder: Path,
    processes: ChildProcesses,
    auditor: Auditor,
    subscriber: Subscriber,
    broker: DemoBroker,
    began: float,
) -> tuple[Snapshot, list[VerdictCheck]]:
    """Shows the progress until the time is up, drains the agents, and judges the result."""
    truth = TrueFrequencies(plan)
    restarts = 0

    def snapshot(words: str = "") -> Snapshot:
        truth.learn(auditor)
        return Snapshot(
            plan=plan,
            record=auditor.record,
            truth=truth.frequencies,
            elapsed=time.monotonic() - began,
            seconds=args.seconds,
            broker=broker.name,
            restarts=restarts,
            phase=words,
        )

    console = Console(width=None if sys.stdout.isatty() else WIDTH, quiet=args.json)
    live = console.is_terminal and not args.json
    if not live:
        console.print(f"{len(plan.wearables)} wearables, {broker.name}, {args.seconds:g} s")
    with (
        Live(console=console, auto_refresh=False, transient=False)
        if live
        else contextlib.nullcontext() as screen
    ):

        def show(words: str = "", checks: list[VerdictCheck] | None = None) -> None:
            if isinstance(screen, Live):
                screen.update(
                    render(snapshot(words), checks or (), width=console.width, height=console.height),
                    refresh=True,
                )

        printed = 0
        while time.monotonic() - began < args.seconds:
            restarts += len(processes.restart_ended())
            show()
            if not live:
                printed = _print_releases(console, auditor, printed)
            if args.until_closed and loop_closed(plan, auditor.record, subscriber):
                break
            time.sleep(0.25)
        show("draining")
        _drain(processes, plan, auditor)
        checks = judge(
            plan,
            auditor.record,
            disk_accounts.read(plan, folder),
            subscriber,
            user_broker=broker.server is None,
        )
        last = snapshot()
        show(checks=checks)
    if not live:
        console.print(render(last, checks))
    if args.picture is not None:
        _save_picture(args.picture, last, checks)
    return last, checks


def _print_releases(console: Console, auditor: Auditor, printed: int) -> int:
    """Prints a line per release that arrived since the last call, and returns the number printed so far."""
    for release in auditor.record.releases[printed:]:
        value, error = release.frequencies[1], release.standard_errors[1]
        console.print(
            f"release {release.entry}: {value:.3f} ± {error:.3f}, loss {release.loss:.3f} of {release.budget:g}"
        )
    return len(auditor.record.releases)


def _drain(processes: ChildProcesses, plan: DemoPlan, auditor: Auditor) -> None:
    """Stops the agents, which wait until their last batches are counted, and then the calibrator."""
    names = [wearable.name for wearable in plan.wearables]
    processes.stop(names, patience=5.0)
    deadline = time.monotonic() + 3.0
    while time.monotonic() < deadline:
        statuses = auditor.record.statuses
        if all(name in statuses and not statuses[name].online and statuses[name].streams for name in names):
            break
        time.sleep(0.02)
    processes.stop(patience=3.0)


def _clear_retained(auditor: Auditor) -> None:
    """Clears the demo's retained messages on the user's broker."""
    with contextlib.suppress(Offline):
        for topic in sorted(auditor.topics):
            auditor.connection.publish(topic, b"", retain=True)
    deadline = time.monotonic() + 1.0
    while auditor.connection.in_flight and time.monotonic() < deadline:
        time.sleep(0.01)


def _save_picture(path: Path, snapshot: Snapshot, checks: list[VerdictCheck]) -> None:
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(render(snapshot, checks))
    try:
        path.write_text(console.export_svg(title="hushmq demo"))
    except OSError as error:
        raise Problem(f"--picture: {path}: {error.strerror}") from None


def _report(plan: DemoPlan, snapshot: Snapshot, checks: list[VerdictCheck]) -> dict[str, Any]:
    """The JSON object that is printed at the end."""
    record = snapshot.record
    return {
        "closed": all(check.passed for check in checks),
        "checks": [asdict(check) for check in checks],
        "seconds": round(snapshot.elapsed, 1),
        "agents": len(plan.wearables),
        "restarts": snapshot.restarts,
        "sampled": sum(
            one.streams[STREAM].sampled for one in record.statuses.values() if STREAM in one.streams
        ),
        "settings": [record.settings[version].model_dump(mode="json") for version in sorted(record.settings)],
        "releases": [
            {**release.model_dump(mode="json"), "truth": snapshot.truth.get(release.entry)}
            for release in record.releases
        ],
        "ledger": record.ledger.model_dump(mode="json") if record.ledger else None,
    }
