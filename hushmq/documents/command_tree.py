"""All commands as one parser, as far as their dependencies are installed: what completion and man pages are made of."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from hushmq.__main__ import COMMANDS, Parser, load


def whole_parser() -> Parser:
    """The parser of `hushmq` with every command whose dependencies are installed."""
    parser = Parser(prog="hushmq", description="A streaming privacy agent for IoT.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, entry in COMMANDS.items():
        try:
            subcommand = load(name)
        except ModuleNotFoundError:
            continue
        below = commands.add_parser(
            name, help=entry.summary, description=f"{entry.summary[0].upper()}{entry.summary[1:]}."
        )
        subcommand.configure(below)
    return parser


def subcommands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """The name, the summary and the parser of every command directly below a parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {one.dest: one.help or "" for one in action._choices_actions}
            for name, below in action.choices.items():
                yield name, summaries.get(name, ""), below
