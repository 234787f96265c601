"""`hushmq agent`: run the daemon."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

SUMMARY = "the daemon on a device"


def configure(parser: argparse.ArgumentParser) -> None:
    """Describe the subcommands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run_ = actions.add_parser("run", help="run the daemon until SIGTERM")
    run_.add_argument("--config", type=Path, required=True, help="the device's TOML file")
    parser.epilog = "examples:\n  hushmq agent run --config agent.toml"


def run(args: argparse.Namespace) -> int:
    """Run the chosen action."""
    from agent.config import load  # noqa: PLC0415  # the parser alone needs none of it
    from agent.daemon import Agent  # noqa: PLC0415  # as above
    from broker.log import logger  # noqa: PLC0415  # as above

    config = load(args.config)
    agent = Agent(config, log=logger(config.log.level, config.log.form))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: agent.stop())
    agent.run()
    return 0
