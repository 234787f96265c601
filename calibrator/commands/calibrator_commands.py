"""`hushmq calibrator`: run the server, check its file, upgrade its database, take devices back.

Here is what each action takes; its own module is imported when it runs, so that --help does not wait for numpy.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

EXAMPLES = """examples:
  hushmq calibrator check-config --config calibrator.toml
  hushmq calibrator run --config calibrator.toml
  hushmq calibrator upgrade --config calibrator.toml --dry-run
  hushmq calibrator readmit --config calibrator.toml --stream motion --device wearable-7
  HUSHMQ_CALIBRATOR__LOG__LEVEL=debug hushmq calibrator run --config calibrator.toml"""
UPGRADE_EXAMPLES = """examples:
  hushmq calibrator upgrade --config calibrator.toml --dry-run
  hushmq calibrator upgrade --config calibrator.toml
  hushmq calibrator upgrade --database sqlite:////backup/ledger.db --json

Stop the calibrators on the database first. A SQLite database is copied beside itself
before it is changed; back up one on PostgreSQL yourself."""
READMIT_EXAMPLES = """examples:
  hushmq calibrator readmit --config calibrator.toml --stream motion --device wearable-7

Repair the device first: if its data contradicts the others' again, it is left out again.
What it has lost is not taken back. Also while the calibrator runs."""
ACTIONS = {
    "run": "run_command",
    "check-config": "run_command",
    "upgrade": "upgrade_command",
    "readmit": "readmit_command",
}
"""The module of each action."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = parser.add_subparsers(dest="action", required=True, metavar="|".join(ACTIONS))
    for name, summary in (
        ("run", "run in the foreground until SIGTERM; SIGHUP reads the file again"),
        ("check-config", "say whether a settings file is right"),
    ):
        command = commands.add_parser(name, help=summary)
        command.add_argument(
            "--config", type=Path, required=True, metavar="FILE", help="the TOML settings file"
        )
    _configure_upgrade(
        commands.add_parser(
            "upgrade",
            help="upgrade the database, as a calibrator does at start; --dry-run only says what is due",
        )
    )
    _configure_readmit(
        commands.add_parser("readmit", help="let a device that is left out of a stream be admitted again")
    )


def _configure_upgrade(command: argparse.ArgumentParser) -> None:
    command.epilog = UPGRADE_EXAMPLES
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", type=Path, metavar="FILE", help="the calibrator's settings file")
    where.add_argument("--database", metavar="URL", help="the database itself")
    command.add_argument("--cohort", metavar="NAME", help="the cohort, where the settings file is a fleet's")
    command.add_argument(
        "--dry-run", action="store_true", help="change nothing; exit code 1 if an upgrade is due"
    )
    command.add_argument("--json", action="store_true", help="as one JSON object")


def _configure_readmit(command: argparse.ArgumentParser) -> None:
    command.epilog = READMIT_EXAMPLES
    where = command.add_mutually_exclusive_group(required=True)
    where.add_argument("--config", type=Path, metavar="FILE", help="the calibrator's settings file")
    where.add_argument("--database", metavar="URL", help="the database itself")
    command.add_argument("--cohort", metavar="NAME", help="the cohort, where the settings file is a fleet's")
    command.add_argument("--stream", required=True, metavar="NAME", help="the stream")
    command.add_argument("--device", required=True, metavar="NAME", help="the device")


def run(args: argparse.Namespace) -> int:
    return int(import_module(f"{__package__}.{ACTIONS[args.action]}").run(args))
