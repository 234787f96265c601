"""`hushmq agent`: join a site, run the daemon, check its configuration, show its status."""

from __future__ import annotations

import argparse
import io
import os
import resource
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

from hushmq.agent.log_failure import log_failure
from hushmq.broker.contract.problem import Problem

SUMMARY = "the daemon on a device"
ENROLL_EXAMPLES = """examples:
  hushmq agent enroll wearable-1.bundle
  hushmq agent enroll wearable-1.bundle --run
  hushmq agent enroll wearable-1.bundle --folder /etc/hushmq --unit /etc/systemd/system/hushmq-agent.service"""


class Stderr(io.TextIOBase):
    """Standard error without exceptions: a full disk or a closed terminal must not stop the agent."""

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, help_ in (
        ("run", "run the daemon until SIGTERM; SIGHUP re-reads the file"),
        ("check-config", "check the configuration file without running"),
        ("status", "show the state of the running daemon; exit code 1 when none runs"),
    ):
        action = actions.add_parser(name, help=help_)
        where = action.add_mutually_exclusive_group(required=True)
        where.add_argument("--config", type=Path, metavar="FILE", help="the device's TOML file")
        if name == "status":
            where.add_argument("--folder", type=Path, metavar="FOLDER", help="the agent's folder, instead")
            action.add_argument(
                "--json", action="store_true", help="print one JSON object, also on a terminal"
            )
    _configure_enroll(
        actions.add_parser("enroll", help="join a site with the bundle that was made for this device")
    )
    parser.epilog = (
        "examples:\n  hushmq agent enroll wearable-1.bundle --run\n"
        "  hushmq agent check-config --config agent.toml\n  hushmq agent run --config agent.toml\n"
        "  HUSHMQ_AGENT__LOG__LEVEL=debug hushmq agent run --config agent.toml\n"
        "  hushmq agent status --config agent.toml\n"
        "  hushmq agent status --config agent.toml --json | jq .streams"
    )


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    # Plugins could read the device's settings. Set before pydantic builds its first model.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    actions = {"run": _run, "check-config": _check_config, "status": _status, "enroll": _enroll}
    return actions[args.action](args)


def _configure_enroll(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ENROLL_EXAMPLES
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the file that hushmq device add wrote")
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="where to unpack it (default: a folder of the device's name)",
    )
    parser.add_argument("--replace", action="store_true", help="replace settings that are there; data stays")
    parser.add_argument("--offline", action="store_true", help="do not check the connection to the broker")
    parser.add_argument("--unit", type=Path, metavar="FILE", help="also write a unit for systemd")
    parser.add_argument("--user", help="the user of that unit (default: whoever runs this)")
    parser.add_argument("--run", action="store_true", help="then run the agent, until interrupted")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _enroll(args: argparse.Namespace) -> int:
    from hushmq.agent.enroll_device import enroll  # noqa: PLC0415  # as above

    settings = enroll(args)
    if not args.run:
        return 0
    args.config = settings
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    from hushmq.agent.agent_config import Config, load  # noqa: PLC0415  # the parser alone needs none of it
    from hushmq.agent.daemon import AgentDaemon  # noqa: PLC0415  # as above
    from hushmq.broker.service.log import logger  # noqa: PLC0415  # as above

    # Memory holds raw states: no core dump.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    stopped = threading.Event()
    agent: AgentDaemon | None = None

    def stop(*_: object) -> None:
        stopped.set()
        if agent is not None:
            agent.stop()

    def reload(*_: object) -> None:
        if agent is not None:
            agent.reload()

    config: Config | None = load(args.config)
    last_good: Config | None = None
    for number, handler in ((signal.SIGTERM, stop), (signal.SIGINT, stop), (signal.SIGHUP, reload)):
        signal.signal(number, handler)
    while config is not None and not stopped.is_set():
        log = logger(config.log.level, config.log.form, cast("TextIO", Stderr()))
        threading.excepthook = partial(_thread_ended, log)
        sys.unraisablehook = partial(_thread_ended, log)
        try:
            agent = AgentDaemon(config, log=log, reload=lambda: load(args.config))
        except Problem as problem:
            if last_good is None:
                raise
            log.warning("configuration_refused", problem=str(problem))
            config, last_good = last_good, None
            continue
        if stopped.is_set():
            agent.stop()
        try:
            last_good, config = config, agent.run()
        except Problem:
            raise
        except Exception as error:  # noqa: BLE001  # its text may hold a value: it must not reach the traceback
            log_failure(log, error)
            return 1
    return 0


def _thread_ended(log: Any, thrown: Any) -> None:
    log_failure(log, thrown.exc_value)


def _check_config(args: argparse.Namespace) -> int:
    from hushmq.agent.agent_config import load  # noqa: PLC0415  # as above

    config = load(args.config)
    print(
        f"{args.config}: good: device {config.device} of cohort {config.cohort}, {', '.join(config.streams)}"
    )
    return 0


def _status(args: argparse.Namespace) -> int:
    import json  # noqa: PLC0415  # as above

    from hushmq.agent.agent_config import load  # noqa: PLC0415  # as above
    from hushmq.agent.device_report import Report, table  # noqa: PLC0415  # as above
    from hushmq.agent.status_socket import read_report  # noqa: PLC0415  # as above

    folder = args.folder or load(args.config).folder
    report = read_report(folder)
    if report is None:
        print(f"hushmq: no agent answers in {folder}", file=sys.stderr)
        return 1
    if args.json or not sys.stdout.isatty():
        print(json.dumps(report))
    else:
        print(table(Report.from_dict(report), colour="NO_COLOR" not in os.environ))
    return 0
