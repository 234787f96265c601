"""Draws a figure in a terminal: curves in braille characters of eight dots each."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from hushmq.explain.axis import Axis
from hushmq.explain.figure import Curve, Figure, Panel

COLOURS = ("36", "33", "35", "32", "34", "31", "96", "93")
RECEDING = "90"
KEYS = "abcdefghijklmnopqrstuvwxyz"

# The bit of each dot in a braille character, by row and column (U+2800 is the empty one).
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

MARGIN = 9
"""Columns to the left of the axes, for labels."""


@dataclass(slots=True)
class Cell:
    """One character: its dots or its letter, and its colour."""

    dots: int = 0
    letter: str = ""
    colour: str = ""


class Canvas:
    """Rows of characters, addressed by dots from the lower left."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._cells = [[Cell() for _ in range(columns)] for _ in range(rows)]

    @property
    def width(self) -> int:
        return 2 * self._columns

    @property
    def height(self) -> int:
        return 4 * self._rows

    def cell(self, x: int, y: int) -> Cell:
        """The character that contains a dot."""
        return self._cells[self._rows - 1 - y // 4][x // 2]

    def dot(self, x: int, y: int, colour: str) -> None:
        cell = self.cell(x, y)
        cell.dots |= DOTS[3 - y % 4][x % 2]
        cell.colour = colour

    def line(self, start: tuple[int, int], end: tuple[int, int], colour: str, *, gap: int = 1) -> None:
        """Draws a straight line; with a gap of n only every n-th dot."""
        (x0, y0), (x1, y1) = start, end
        steps = max(abs(x1 - x0), abs(y1 - y0), 1)
        for i in range(steps + 1):
            x, y = round(x0 + (x1 - x0) * i / steps), round(y0 + (y1 - y0) * i / steps)
            if gap == 1 or (x + y) % gap == 0:
                self.dot(x, y, colour)

    def letter(self, x: int, y: int, letter: str, colour: str) -> bool:
        """Writes a letter; False if the character already has one."""
        cell = self.cell(x, y)
        if cell.letter:
            return False
        cell.letter, cell.colour = letter, colour
        return True

    def rows(self, paint: bool) -> list[str]:
        """The rows as text, top first."""
        return ["".join(_text(cell, paint) for cell in row) for row in self._cells]


def _text(cell: Cell, paint: bool) -> str:
    if not cell.letter and not cell.dots:
        return " "
    return _painted(cell.letter or chr(0x2800 + cell.dots), cell.colour, paint)


def _painted(text: str, colour: str, paint: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if paint else text


def draw(figure: Figure, *, columns: int = 80, rows: int = 18, paint: bool = False) -> str:
    """The figure as text, one panel below the other."""
    parts = [figure.title]
    parts += [_panel(panel, columns=columns, rows=rows, paint=paint) for panel in figure.panels]
    parts += [textwrap.fill(note, columns) for note in figure.notes]
    return "\n\n".join(parts)


def _panel(panel: Panel, *, columns: int, rows: int, paint: bool) -> str:
    canvas = Canvas(max(20, columns - MARGIN - 2), rows)
    across, up = panel.axes()

    def place(x: float, y: float) -> tuple[int, int]:
        return round(across.share(x) * (canvas.width - 1)), round(up.share(y) * (canvas.height - 1))

    colours = _colours(panel.curves)
    for curve, colour in reversed(list(zip(panel.curves, colours, strict=True))):
        dots = [place(x, y) for x, y in zip(curve.x, curve.y, strict=True)]
        for start, end in zip(dots, dots[1:] or dots, strict=False):
            canvas.line(start, end, colour, gap=4 if curve.reference else 1)
    for key, curve, colour in zip(KEYS, panel.curves, colours, strict=False):
        _name(canvas, [place(x, y) for x, y in zip(curve.x, curve.y, strict=True)], key, colour)
    for number, mark in enumerate(panel.marks, 1):
        canvas.letter(*place(mark.x, mark.y), str(number), "1")

    numbers = {
        canvas.height // 4 - 1 - place(across.low, tick)[1] // 4: up.label(tick) for tick in up.ticks()
    }
    body = [
        f"{numbers.get(i, ''):>{MARGIN - 2}} {'┤' if i in numbers else '│'}{row}"
        for i, row in enumerate(canvas.rows(paint))
    ]
    legend = [
        f"  {_painted(key, colour, paint)}  {curve.label}"
        for key, curve, colour in zip(KEYS, panel.curves, colours, strict=False)
    ]
    legend += [f"  {number}  {mark.label}" for number, mark in enumerate(panel.marks, 1)]
    return "\n".join(
        [
            f"{panel.title}   [{panel.y_label}]",
            *body,
            *_below(across, canvas.width // 2),
            f"{panel.x_label:>{MARGIN + canvas.width // 2}}",
            *legend,
        ]
    )


def _colours(curves: Sequence[Curve]) -> list[str]:
    fresh = iter(COLOURS * (1 + len(curves) // len(COLOURS)))
    return [RECEDING if curve.reference else next(fresh) for curve in curves]


def _name(canvas: Canvas, dots: list[tuple[int, int]], key: str, colour: str) -> None:
    """Writes the curve's letter on it: near its ends first, where no other letter is."""
    count = len(dots)
    for share in (0.02, 0.98, 0.35, 0.65, 0.2, 0.5, 0.8):
        x, y = dots[min(count - 1, int(share * count))]
        if count == 2:
            (x0, y0), (x1, y1) = dots
            x, y = round(x0 + share * (x1 - x0)), round(y0 + share * (y1 - y0))
        if canvas.letter(x, y, key, colour) and share not in {0.02, 0.98}:
            return


def _below(axis: Axis, columns: int) -> list[str]:
    """The x axis and its numbers."""
    rule, numbers = ["─"] * columns, [" "] * (columns + MARGIN)
    for tick in axis.ticks():
        at = math.floor(axis.share(tick) * (columns - 1))
        rule[at] = "┬"
        label = axis.label(tick)
        start = min(MARGIN + at - len(label) // 2, len(numbers) - len(label))
        if not "".join(numbers[start - 1 : start + len(label)]).strip():
            numbers[start : start + len(label)] = label
    return [" " * (MARGIN - 1) + "└" + "".join(rule), "".join(numbers).rstrip()]
