"""A figure as a value, independent of how it is drawn; `terminal`, `svg_picture` and `picture` draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hushmq.explain.axis import Axis

# Okabe and Ito's palette: distinguishable with colour blindness and in greyscale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
RECEDING = "#8a8a8a"
INK = "#222222"


@dataclass(frozen=True, slots=True)
class Curve:
    """Points connected from left to right; a reference curve is drawn in grey.

    `dots` also draws the points, for measured values; `low` and `high` are their confidence bounds.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    reference: bool = False
    dots: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class LabelledPoint:
    """A single point with a label."""

    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes; `logarithmic` names the logarithmic ones.

    Linear axes start at 0; if `from_zero` is false, y starts near its smallest value.
    """

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    marks: Sequence[LabelledPoint] = ()
    logarithmic: Literal["", "x", "y", "xy"] = ""
    from_zero: bool = True

    def axes(self) -> tuple[Axis, Axis]:
        """The x axis and the y axis that contain all curves and points."""
        xs = [x for curve in self.curves for x in curve.x] + [mark.x for mark in self.marks]
        ys = [y for curve in self.curves for y in (*curve.y, *curve.low, *curve.high)]
        ys += [mark.y for mark in self.marks]
        ys += [] if "y" in self.logarithmic or not self.from_zero else [0.0]
        return (
            Axis.over(xs, logarithmic="x" in self.logarithmic),
            Axis.over(ys, logarithmic="y" in self.logarithmic),
        )


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels under one title, side by side or stacked, and notes."""

    title: str
    panels: Sequence[Panel]
    notes: Sequence[str] = ()
    stacked: bool = False

    def as_json(self) -> dict[str, Any]:
        """The numbers of the figure."""
        return {
            "title": self.title,
            "panels": [asdict(panel) for panel in self.panels],
            "notes": list(self.notes),
        }
