"""Draws a figure into an SVG file, without any library: what `hushmq releases plot --output releases.svg` writes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from itertools import cycle
from pathlib import Path

from hushmq.explain.axis import Axis
from hushmq.explain.figure import COLOURS, INK, RECEDING, Curve, Figure, LabelledPoint, Panel

PANEL_WIDTHS = {1: 760, 2: 520, 3: 400}
"""The width of a panel in pixels, by the number of panels in a row."""
PANEL_HEIGHT = 300
LEFT, RIGHT, ABOVE, BELOW = 64, 16, 34, 48
"""Room around the axes of a panel."""
LINE = 17
"""The height of a line of text."""
LETTER = 6.2
"""The width of a letter of the notes, on average."""
STYLE = (
    f"text{{font-family:system-ui,sans-serif;font-size:12px;fill:{INK}}}"
    ".title{font-size:17px;font-weight:600}.panel{font-size:13px;font-weight:600}"
    ".note{font-size:11px;fill:#666}.grid{stroke:#e6e6e6}.axis{stroke:#666}"
)


def save_svg(figure: Figure, path: Path) -> None:
    """Writes the figure; equal figures give equal bytes."""
    path.write_text(svg(figure), encoding="utf-8")


def svg(figure: Figure) -> str:
    """The figure as an SVG document."""
    count = len(figure.panels)
    columns = 1 if figure.stacked else count if count in PANEL_WIDTHS else 2
    width = PANEL_WIDTHS[columns] * columns
    parts, top = [_text(12, 26, figure.title, "title")], 40.0
    for row in range(0, count, columns):
        heights = []
        for column, panel in enumerate(figure.panels[row : row + columns]):
            drawn, height = _panel(panel, column * PANEL_WIDTHS[columns], top, PANEL_WIDTHS[columns])
            parts += drawn
            heights.append(height)
        top += max(heights)
    for note in figure.notes:
        for line in textwrap.wrap(note, round(width / LETTER)):
            parts.append(_text(12, top + LINE, line, "note"))
            top += LINE
    height = top + LINE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" '
        f'height="{height:g}" role="img" aria-label="{escape(figure.title)}"><style>{STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _panel(panel: Panel, left: float, top: float, width: float) -> tuple[list[str], float]:
    """The panel's parts, and its height with the legend below it."""
    across, up = panel.axes()
    up = up.stretched(0.05)
    inside = _Axes(across, up, left + LEFT, top + ABOVE, width - LEFT - RIGHT, PANEL_HEIGHT - ABOVE - BELOW)
    parts = [
        _text(left + 12, top + 18, panel.title, "panel"),
        *inside.frame(),
        _text(inside.left + inside.width / 2, inside.bottom + 38, panel.x_label, anchor="middle"),
        f'<g transform="translate({left + 16:g} {inside.top + inside.height / 2:g}) rotate(-90)">'
        f"{_text(0, 0, panel.y_label, anchor='middle')}</g>",
    ]
    strokes = _strokes(panel.curves)
    for curve, (colour, dashes) in zip(panel.curves, strokes, strict=True):
        parts += inside.curve(curve, colour, dashes)
    parts += [inside.mark(mark) for mark in panel.marks]
    if len(panel.curves) == 1:
        return parts, PANEL_HEIGHT + 8
    legend, height = _legend(panel.curves, strokes, inside.left, top + PANEL_HEIGHT, inside.width)
    return parts + legend, PANEL_HEIGHT + height + 8


class _Axes:
    """Where values are on the page."""

    def __init__(self, across: Axis, up: Axis, left: float, top: float, width: float, height: float) -> None:
        self.across, self.up = across, up
        self.left, self.top, self.width, self.height = left, top, width, height
        self.bottom = top + height

    def at(self, x: float, y: float) -> str:
        return f"{self._x(x):.1f},{self._y(y):.1f}"

    def _x(self, value: float) -> float:
        return self.left + self.width * self.across.share(value)

    def _y(self, value: float) -> float:
        return self.bottom - self.height * self.up.share(value)

    def frame(self) -> list[str]:
        """Grid, axes and their numbers."""
        parts = []
        for tick in self.across.ticks():
            x = self._x(tick)
            parts.append(f'<path class="grid" d="M{x:.1f} {self.top:g}V{self.bottom:g}"/>')
            parts.append(_text(x, self.bottom + 18, self.across.label(tick), anchor="middle"))
        for tick in self.up.ticks():
            y = self._y(tick)
            parts.append(f'<path class="grid" d="M{self.left:g} {y:.1f}H{self.left + self.width:g}"/>')
            parts.append(_text(self.left - 8, y + 4, self.up.label(tick), anchor="end"))
        corner = f"M{self.left:g} {self.top:g}V{self.bottom:g}H{self.left + self.width:g}"
        return [*parts, f'<path class="axis" fill="none" d="{corner}"/>']

    def curve(self, curve: Curve, colour: str, dashes: str) -> list[str]:
        """The line, its dots, and the area of its confidence bounds."""
        parts = []
        if curve.low:
            upper = [self.at(x, y) for x, y in zip(curve.x, curve.high, strict=True)]
            lower = [self.at(x, y) for x, y in zip(curve.x, curve.low, strict=True)]
            area = " ".join([*upper, *reversed(lower)])
            parts.append(f'<polygon points="{area}" fill="{colour}" fill-opacity=".15"/>')
        line = " ".join(self.at(x, y) for x, y in zip(curve.x, curve.y, strict=True))
        parts.append(_line(line, colour, dashes, 1.3 if curve.reference else 2))
        if curve.dots:
            for x, y in zip(curve.x, curve.y, strict=True):
                parts.append(f'<circle cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="3" fill="{colour}"/>')
        return parts

    def mark(self, mark: LabelledPoint) -> str:
        """A point with its label."""
        x, y, right = self._x(mark.x), self._y(mark.y), self.across.share(mark.x) < 0.7
        label = _text(x + (8 if right else -8), y - 8, mark.label, anchor="start" if right else "end")
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{INK}"/>{label}'


def _legend(
    curves: Sequence[Curve], strokes: Sequence[tuple[str, str]], left: float, top: float, width: float
) -> tuple[list[str], float]:
    """A line of its stroke and the label of each curve, in rows, and their height."""
    parts, x, y = [], left, top + 8
    for curve, (colour, dashes) in zip(curves, strokes, strict=True):
        wide = 44 + 7 * len(curve.label)
        if x > left and x + wide > left + width:
            x, y = left, y + LINE
        parts.append(_line(f"{x:g},{y - 4:g} {x + 24:g},{y - 4:g}", colour, dashes, 2))
        parts.append(_text(x + 30, y, curve.label))
        x += wide
    return parts, y - top + LINE / 2


def _strokes(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    """Colour and dashes of each curve."""
    colours, dashes = cycle(COLOURS), cycle(("6 4", "2 3", "8 3 2 3"))
    return [(RECEDING, next(dashes)) if curve.reference else (next(colours), "") for curve in curves]


def _line(points: str, colour: str, dashes: str, width: float) -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    named = f' class="{style}"' if style else ""
    aligned = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}"{named}{aligned}>{escape(words)}</text>'
