"""`hushmq calibrator`: run the server."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from broker.log import LEVELS, logger
from broker.signature import PrivateKey
from calibrator.config import load
from calibrator.daemon import Daemon

EXAMPLES = """examples:
  hushmq calibrator run --config calibrator.toml
  hushmq calibrator check-config --config calibrator.toml"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    commands = parser.add_subparsers(dest="action", required=True, metavar="run|check-config")
    for name, summary in (
        ("run", "run in the foreground"),
        ("check-config", "say whether a settings file is right"),
    ):
        command = commands.add_parser(name, help=summary)
        command.add_argument("--config", type=Path, required=True, help="the TOML settings file")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="the least level written")


def run(args: argparse.Namespace) -> int:
    config = load(args.config)
    key = PrivateKey.load(config.keys.signing_key_file)
    if args.action == "check-config":
        print(
            f"{args.config}: right; cohort {config.cohort}, {len(config.endpoints)} broker(s), key {key.public.id}"
        )
        return 0
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Daemon(config, key=key, log=logger(args.log_level)).run(stop.is_set)
    return 0
