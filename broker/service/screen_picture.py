"""Saves what a command shows as a picture: SVG, drawn by rich."""

from __future__ import annotations

import io
import re
from pathlib import Path

from hushmq.broker.contract.problem import Problem

LEAST_WIDTH = 80
FONTS = re.compile(r"\s*@font-face \{[^}]*\}")
"""Rich has viewers load a font from another host: a picture of ours loads nothing."""


def save_screen(path: Path, title: str, text: str) -> None:
    """Write a text as a picture of a terminal; raise Problem where rich is missing or the file cannot be written."""
    try:
        from rich.console import Console  # noqa: PLC0415  # a device does not have it
        from rich.text import Text  # noqa: PLC0415  # as above
    except ModuleNotFoundError:
        raise Problem(
            "--picture: it needs rich, which is not installed: pip install 'hushmq[calibrator]'"
        ) from None
    width = max(LEAST_WIDTH, *(len(line) for line in text.splitlines()))
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(Text(text))
    try:
        path.write_text(FONTS.sub("", console.export_svg(title=title, unique_id="hushmq")))
    except OSError as error:
        raise Problem(f"--picture: {path}: {error.strerror}") from None
