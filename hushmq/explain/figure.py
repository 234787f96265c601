"""A figure as a value: what is to be seen, not how it is drawn. `terminal` and `picture` draw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from hushmq.explain.axis import Axis


@dataclass(frozen=True, slots=True)
class Curve:
    """Points joined from left to right. A reference is something to compare with, and is drawn to recede.

    `dots` shows the points themselves, where they were measured one by one; `low` and `high` bound what chance may
    have added to them.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    reference: bool = False
    dots: bool = False
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """One point worth naming."""

    label: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes; `logarithmic` names those that show logarithms.

    The others are shown from 0 up, unless `from_zero` is false: then y begins near its least value, where what is
    compared lies far from 0.
    """

    title: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    marks: Sequence[Mark] = ()
    logarithmic: Literal["", "x", "y", "xy"] = ""
    from_zero: bool = True

    def axes(self) -> tuple[Axis, Axis]:
        """The x axis and the y axis that show everything."""
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
    """Panels under one title, side by side or stacked, and what must be said in words."""

    title: str
    panels: Sequence[Panel]
    notes: Sequence[str] = ()
    stacked: bool = False

    def as_json(self) -> dict[str, Any]:
        """The figure's numbers, for who wants to draw it differently."""
        return {
            "title": self.title,
            "panels": [asdict(panel) for panel in self.panels],
            "notes": list(self.notes),
        }
