"""`hushmq calibrator`: run the server, check its file, upgrade its database, take devices back."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import Config, load
from hushmq.calibrator.commands import readmit_command, upgrade_command
from hushmq.calibrator.daemon import Daemon

EXAMPLES = """examples:
  hushmq calibrator check-config --config calibrator.toml
  hushmq calibrator run --config calibrator.toml
  hushmq calibrator upgrade --config calibrator.toml --dry-run
  hushmq calibrator readmit --config calibrator.toml --stream motion --device wearable-7
  HUSHMQ_CALIBRATOR__LOG__LEVEL=debug hushmq calibrator run --config calibrator.toml"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = parser.add_subparsers(dest="action", required=True, metavar="run|check-config|upgrade|readmit")
    for name, summary in (
        ("run", "run in the foreground until SIGTERM; SIGHUP reads the file again"),
        ("check-config", "say whether a settings file is right"),
    ):
        command = commands.add_parser(name, help=summary)
        command.add_argument(
            "--config", type=Path, required=True, metavar="FILE", help="the TOML settings file"
        )
    upgrade_command.configure(commands.add_parser("upgrade", help=upgrade_command.SUMMARY))
    readmit_command.configure(commands.add_parser("readmit", help=readmit_command.SUMMARY))


def run(args: argparse.Namespace) -> int:
    if args.action == "upgrade":
        return upgrade_command.run(args)
    if args.action == "readmit":
        return readmit_command.run(args)
    config = load(args.config)
    if args.action == "check-config":
        print(
            f"{args.config}: right; cohort {config.cohort}, {len(config.broker.urls)} broker(s), "
            f"key {config.keys.signing_key.public.id}"
        )
        return 0
    return _run(args.config, config)


def _run(path: Path, config: Config) -> int:
    following: Config | None = config
    while following is not None:
        daemon = Daemon(
            following, log=logger(following.log.level, following.log.form), reload=lambda: load(path)
        )
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_, daemon=daemon: daemon.stop())
        signal.signal(signal.SIGHUP, lambda *_, daemon=daemon: daemon.ask_reload())
        following = daemon.run()
    return 0
