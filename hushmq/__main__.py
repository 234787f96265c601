"""The command line. Each subcommand is a module that is imported only when it is asked for.

Exit codes: 0 done; 1 ran, and the answer is no; 2 something a person can mend; 130 interrupted.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn, Protocol, cast

from hushmq.broker.contract.problem import Problem


class Subcommand(Protocol):
    """The interface of a subcommand's module."""

    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a subcommand lives, what it does, and the extra that carries its dependencies."""

    module: str
    summary: str
    extra: str | None = None


EVALUATION = "hushmq.evaluation"
"""The package that is a separate distribution, which a device does not install."""
COMMANDS = {
    "demo": Entry("hushmq.demo", "run the whole loop on this machine for half a minute", "demo"),
    "plan": Entry("hushmq.plan.plan_command", "what can be had: noise, errors, traffic, odds", "evaluation"),
    "init": Entry("hushmq.setup.init_command", "make a site: keys, broker, calibrator, policy"),
    "up": Entry("hushmq.setup.up_command", "run a whole site on this machine", "demo"),
    "device": Entry("hushmq.setup.device_command", "let devices join a site, list them, shut them out"),
    "agent": Entry("hushmq.agent.agent_commands", "the daemon on a device"),
    "broker": Entry("hushmq.broker.commands.broker_commands", "run or configure a broker", "broker"),
    "keys": Entry("hushmq.broker.commands.keys_command", "create and show signing keys"),
    "calibrator": Entry(
        "hushmq.calibrator.commands.calibrator_commands",
        "the server: ingest, estimate, push, charge, release",
        "calibrator",
    ),
    "fleet": Entry(
        "hushmq.calibrator.commands.fleet_commands",
        "many cohorts on one database, and the workers that serve them",
        "calibrator",
    ),
    "capacity": Entry(
        "hushmq.capacity.capacity_command",
        "what a fleet takes: messages, cores, memory, disk, and what breaks first",
        "calibrator",
    ),
    "policy": Entry("hushmq.broker.commands.policy_command", "sign a policy where the key of ops is"),
    "push": Entry(
        "hushmq.broker.commands.push_command", "check, sign and publish a policy, and follow its roll-out"
    ),
    "watch": Entry("hushmq.broker.commands.watch_command", "print releases and status as they arrive"),
    "console": Entry(
        "hushmq.console.console_commands", "the web page for operators and privacy officers", "console"
    ),
    "releases": Entry("hushmq.releases_command", "export and plot what was released", "calibrator"),
    "calibrate": Entry("hushmq.commands.calibrate_command", "noise for a given loss"),
    "price": Entry("hushmq.commands.price_command", "loss of a given noise"),
    "audit": Entry("hushmq.audit", "try to refute a claimed loss by sampling the noise"),
    "scale": Entry(
        "hushmq.commands.scale_command", "Laplace scale for a chain, by any of the methods", "calibrator"
    ),
    "ledger": Entry(
        "hushmq.ledger_command", "price a timeline; show, verify and export a calibrator's ledger"
    ),
    "verify": Entry(
        "hushmq.verify.verify_command", "check all that a calibrator's export claims, independently"
    ),
    "evaluate": Entry(
        f"{EVALUATION}.evaluate_command",
        "the papers' tables and figures, and ours beside them",
        "evaluation",
    ),
    "explain": Entry("hushmq.explain", "plots of loss, noise and timelines", "evaluation"),
    "completion": Entry(
        "hushmq.documents.shell_completion", "a script with which a shell completes commands", "completion"
    ),
}


class Parser(argparse.ArgumentParser):
    """An argument parser that keeps the line breaks of its notes and reports an error in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": argparse.RawDescriptionHelpFormatter, **options})

    def error(self, message: str) -> NoReturn:
        raise Problem(f"{message}{self._option_help(message)} (see {self.prog} --help)")

    def _option_help(self, message: str) -> str:
        """The help of the options that an error message names: argparse gives only their names."""
        if "are required:" not in message and ": expected " not in message:
            return ""
        named = set(re.split("[ ,:]+", message))
        takes = [(action.option_strings or [str(action.metavar)], action.help) for action in self._actions]
        return "".join(f"; {names[-1]}: {text}" for names, text in takes if named & set(names) and text)


class _Version(argparse.Action):
    """Looks up the version on demand, because the lookup is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415  # as said above

        print(f"hushmq {version('hushmq')}")
        parser.exit()


def _parser() -> Parser:
    width = max(map(len, COMMANDS))
    listing = "\n".join(f"  {name:<{width}}  {entry.summary}" for name, entry in COMMANDS.items())
    parser = Parser(
        prog="hushmq",
        description="A streaming privacy agent for IoT.",
        epilog=f"commands:\n{listing}\n\nexamples:\n  hushmq demo --seconds 30\n"
        "  hushmq calibrate --q 0.09 --r 0.11 --epsilon 1\n  hushmq agent run --config agent.toml",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    parser.add_argument(
        "command", metavar="COMMAND", help="one of the commands below; COMMAND --help tells more"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def parser_of(name: str, subcommand: Subcommand) -> Parser:
    """The parser of one subcommand."""
    summary = COMMANDS[name].summary
    parser = Parser(prog=f"hushmq {name}", description=f"{summary[0].upper()}{summary[1:]}.")
    subcommand.configure(parser)
    return parser


def load(name: str) -> Subcommand:
    """Import a subcommand."""
    return cast("Subcommand", import_module(COMMANDS[name].module))


SYSTEM_ERRORS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE}
)
"""Errors of the user's system, reported in one line: permissions, free space, open files."""


def _dispatch(argv: Sequence[str]) -> int:
    head = _parser().parse_args(argv)
    if head.command not in COMMANDS:
        raise Problem(f"unknown command {head.command!r}: choose from {', '.join(COMMANDS)}")
    try:
        subcommand = load(head.command)
        return subcommand.run(parser_of(head.command, subcommand).parse_args(head.rest))
    except ModuleNotFoundError as error:
        extra = COMMANDS[head.command].extra
        if extra is None or error.name is None or not _is_optional(error.name):
            raise
        raise Problem(
            f"'hushmq {head.command}' needs {error.name}, which is not installed: pip install 'hushmq[{extra}]'"
        ) from None


def _is_optional(module: str) -> bool:
    """Whether the missing module belongs to an extra; any other missing module is a bug."""
    return module == EVALUATION or module.split(".", maxsplit=1)[0] != "hushmq"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # An encoding without Greek letters shows question marks instead of failing.
        sys.stdout.reconfigure(errors="replace")
    try:
        return _dispatch(sys.argv[1:] if argv is None else argv)
    except Problem as problem:
        print(f"hushmq: {problem}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            return _discard_output()
        if error.errno not in SYSTEM_ERRORS:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"hushmq: {where}{error.strerror}", file=sys.stderr)
        return 2


def _discard_output() -> int:
    """Redirects standard output after its reader has closed it, so that the interpreter does not fail at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


if __name__ == "__main__":
    sys.exit(main())
