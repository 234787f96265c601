"""The output of a figure: the terminal, a PNG or SVG file, or JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.explain.figure import Figure
from hushmq.explain.svg_picture import save_svg
from hushmq.explain.terminal import draw

SUFFIXES = (".png", ".svg")


def show(figure: Figure, *, output: Path | None, as_json: bool) -> None:
    """Draws the figure in the terminal, saves it as a picture, or prints its numbers."""
    if output is not None:
        _save(figure, output)
    if as_json:
        print(json.dumps(figure.as_json(), allow_nan=False))
    elif output is None:
        paint = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        columns = shutil.get_terminal_size((80, 24)).columns
        print(draw(figure, columns=min(columns, 120), paint=paint))


def _save(figure: Figure, path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise Problem(f"--output: {path} does not end in {' or '.join(SUFFIXES)}")
    save = save_svg if path.suffix == ".svg" else _png_writer()
    try:
        save(figure, path)
    except OSError as error:
        raise Problem(f"--output: {path}: {error.strerror}; give a file that can be written") from None


def _png_writer() -> Callable[[Figure, Path], None]:
    """What writes a PNG; Problem where its library is missing."""
    try:
        from hushmq.explain.picture import save  # noqa: PLC0415  # matplotlib, only for PNG
    except ModuleNotFoundError as error:
        raise Problem(
            f"--output: a PNG needs {error.name}, which is not installed: give a name that ends in .svg, or "
            "pip install 'hushmq[evaluation]'"
        ) from None
    return save
