"""`hushmq completion`: a script with which a shell completes commands and options, made from the parsers."""

from __future__ import annotations

import argparse

from hushmq.documents.command_tree import whole_parser

SHELLS = ("bash", "zsh", "fish")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that is to read the script")
    parser.epilog = (
        "examples:\n"
        "  hushmq completion bash > ~/.local/share/bash-completion/completions/hushmq\n"
        "  hushmq completion zsh > ~/.zfunc/_hushmq     with fpath+=~/.zfunc before compinit in .zshrc\n"
        "  hushmq completion fish > ~/.config/fish/completions/hushmq.fish"
    )


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    print(script(args.shell))
    return 0


def script(shell: str) -> str:
    """The script for one of the shells."""
    import shtab  # noqa: PLC0415  # in an extra, and only this command needs it

    return shtab.complete(whole_parser(), shell=shell)
