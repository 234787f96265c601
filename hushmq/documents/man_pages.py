"""Man pages from the parsers, the source of docs/cli.md too: `python -m hushmq.documents.man_pages FOLDER`.

One page for `hushmq`, which lists the commands, and one for each command with its subcommands, options and notes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from hushmq.documents.command_tree import subcommands, whole_parser
from hushmq.documents.manual import option_help, option_usage

EXIT_CODES = (
    ("0", "done"),
    ("1", "ran, and the answer is no"),
    ("2", "something a person can mend: one line on standard error says what"),
    ("130", "interrupted"),
)


def man_pages() -> dict[str, str]:
    """The text of each page by its file name."""
    whole = whole_parser()
    listing = list(subcommands(whole))
    top = [
        *_head("hushmq", "privacy agent for streams of sensors"),
        ".SH SYNOPSIS",
        r".B hushmq",
        r"\fICOMMAND\fR [\fIoptions\fR]",
        ".SH COMMANDS",
        *(line for name, summary, _ in listing for line in _item(f"hushmq-{name}(1)", summary)),
        *_exit_codes(),
    ]
    pages = {"hushmq.1": _text(top)}
    for name, summary, parser in listing:
        lines = [*_head(f"hushmq-{name}", summary), *_command(parser), *_exit_codes()]
        pages[f"hushmq-{name}.1"] = _text([*lines, ".SH SEE ALSO", ".BR hushmq (1)"])
    return pages


def _head(name: str, summary: str) -> Iterator[str]:
    yield f'.TH {name.upper()} 1 "" "hushmq {version("hushmq")}" "hushmq"'
    yield ".SH NAME"
    yield f"{_escape(name)} \\- {_escape(summary)}"


def _command(parser: argparse.ArgumentParser) -> Iterator[str]:
    """A command's options and notes, then those of its subcommands."""
    yield f".SH {_escape(parser.prog.upper())}"
    if parser.description:
        yield _escape(parser.description)
    for action in parser._actions:
        hidden = isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
        if not hidden and action.help != argparse.SUPPRESS:
            yield from _item(option_usage(action), option_help(action))
    if parser.epilog:
        yield from (".PP", ".nf", *map(_escape, parser.epilog.strip().splitlines()), ".fi")
    for _name, _summary, below in subcommands(parser):
        yield from _command(below)


def _item(term: str, text: str) -> tuple[str, str, str]:
    return ".TP", f"\\fB{_escape(term)}\\fR", _escape(text)


def _exit_codes() -> Iterator[str]:
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES:
        yield from _item(code, meaning)


def _escape(text: str) -> str:
    """The text as roff takes it: backslashes and hyphens literally, no line that reads as a request."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in plain.split("\n"))


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Write the pages into a folder."""
    parser = argparse.ArgumentParser(
        prog="python -m hushmq.documents.man_pages", description="Write man pages."
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the pages go; made if missing")
    folder = parser.parse_args(argv).folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in man_pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
