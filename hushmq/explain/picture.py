"""Draws a figure into a PNG file with matplotlib, which only this module imports."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Sheet
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from hushmq.explain.figure import COLOURS, INK, RECEDING, Curve, Figure, Panel

# Any, because matplotlib's type for it lists every key by name, and differs between versions.
STYLE: Any = {
    "font.size": 10,
    "axes.edgecolor": "#666666",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "text.color": INK,
    "svg.hashsalt": "hushmq",
}


PANEL_WIDTHS = {1: 7.6, 2: 6.6, 3: 4.6}
"""The width of a panel in inches, by the number of panels in a row."""


def save(figure: Figure, path: Path) -> None:
    """Writes the figure; equal figures give equal bytes."""
    with rc_context(STYLE):
        sheet(figure).savefig(path, dpi=150)


def sheet(figure: Figure) -> Sheet:
    """Draws the figure; the caller applies `STYLE` and saves it."""
    count = len(figure.panels)
    columns = 1 if figure.stacked else count if count in PANEL_WIDTHS else 2
    rows = -(-count // columns)
    width = PANEL_WIDTHS[columns] * columns
    # Panels with the same curves share one legend.
    shared = count > 1 and len({tuple(curve.label for curve in panel.curves) for panel in figure.panels}) == 1
    drawn = Sheet(figsize=(width, 1.2 + 3.2 * rows + 0.8 * (rows == 1)), layout="constrained")
    for number, panel in enumerate(figure.panels, 1):
        axes = drawn.add_subplot(rows, columns, number)
        _panel(axes, panel)
        if not shared:
            axes.legend(frameon=False, fontsize=9)
    notes = "\n".join(textwrap.fill(note, round(16.6 * width)) for note in figure.notes)
    if shared:
        # The layout reserves room below the panels for one artist only, so the notes are the legend's title.
        legend = drawn.legend(
            *drawn.axes[0].get_legend_handles_labels(),
            loc="outside lower center",
            ncols=min(6, len(figure.panels[0].curves)),
            frameon=False,
            title=notes or None,
            title_fontproperties={"size": 8},
        )
        legend.get_title().set_color(RECEDING)
    elif notes:
        drawn.supxlabel(notes, fontsize=8, color=RECEDING, x=0.01, ha="left")
    drawn.suptitle(figure.title, fontsize=13, x=0.01, ha="left")
    return drawn


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title, loc="left", fontsize=11)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    across, up = panel.axes()
    if across.logarithmic:
        axes.set_xscale("log")
    if up.logarithmic:
        axes.set_yscale("log")
    for axis, values in ((axes.xaxis, across), (axes.yaxis, up)):
        axis.set_major_locator(FixedLocator(values.ticks()))
        axis.set_major_formatter(FixedFormatter([values.label(tick) for tick in values.ticks()]))
        axis.set_minor_locator(NullLocator())
    for curve, (colour, dashes) in zip(panel.curves, _strokes(panel.curves), strict=True):
        axes.plot(
            curve.x,
            curve.y,
            dashes,
            color=colour,
            linewidth=1.3 if curve.reference else 2.0,
            marker="o" if curve.dots else "",
            markersize=4,
            clip_on=not curve.dots,
            # A reference that coincides with a curve stays visible on top of it.
            zorder=3 if curve.reference else 2,
            label=curve.label,
        )
        if curve.low:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, linewidth=0)
    for number, mark in enumerate(panel.marks):
        right, above = across.share(mark.x) < 0.7, number % 2 == 0
        axes.plot(mark.x, mark.y, "o", color=INK, markersize=5, zorder=5)
        axes.annotate(
            mark.label,
            (mark.x, mark.y),
            xytext=(8 if right == above else -8, 8 if above else -8),
            textcoords="offset points",
            ha="left" if right == above else "right",
            va="bottom" if above else "top",
            fontsize=9,
            zorder=6,
        )
    axes.set_xlim(across.low, across.high)
    room = up.stretched(0.05)
    axes.set_ylim(room.low, room.high)


def _strokes(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    """Colour and dashes of each curve."""
    colours, dashes = cycle(COLOURS), cycle(("--", ":", "-."))
    return [(RECEDING, next(dashes)) if curve.reference else (next(colours), "-") for curve in curves]
