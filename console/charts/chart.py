"""A chart over time as SVG and HTML, drawn on the server: it prints, follows the page's colours, and needs no script.

The drawing is stretched to its place; labels are text beside it, so that they stay legible on a phone. What is said
about a point is in `data-points`, for the script that shows it under the pointer or on a key.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from markupsafe import Markup, escape

WIDTH, HEIGHT = 1000.0, 300.0
LABELS = 5
HALF_DAY_S = 43_200

Numbers = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A line through values; where one is missing, it is broken. `step`: a value holds until the next."""

    values: Numbers
    style: str
    step: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """The area between two lines."""

    low: Numbers
    high: Numbers
    style: str


@dataclass(frozen=True, slots=True)
class Dots:
    """A dot for each value."""

    values: Numbers
    style: str


@dataclass(frozen=True, slots=True)
class Bars:
    """A vertical stroke from a low to a high value, for each."""

    low: Numbers
    high: Numbers
    style: str


Layer = Line | Band | Dots | Bars


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn: layers over common times, in seconds since the epoch."""

    title: str
    times: Sequence[float]
    layers: Sequence[Layer]
    low: float
    high: float
    write: Callable[[float], str]
    """Writes a value of the vertical axis."""
    points: Sequence[Sequence[str]] = field(default=())
    """By time, lines of text about the point."""
    marks: Sequence[tuple[float, str]] = field(default=())
    """Horizontal lines: a value and a name, such as a budget."""
    keys: Sequence[int] = field(default=())
    """By time, the number by which a part of the chart is asked for; none where it shows all there is."""
    names: Sequence[str] = field(default=())
    """Labels below, where the horizontal axis is not time."""

    def markup(self) -> Markup:
        """The chart for a page."""
        ticks = _round_values(self.low, self.high)
        grid = "".join(f'<path class="grid" d="M0 {self._y(one):.1f}H{WIDTH:g}"/>' for one in ticks)
        marks = "".join(f'<path class="mark" d="M0 {self._y(one):.1f}H{WIDTH:g}"/>' for one, _ in self.marks)
        body = "".join(map(self._layer, self.layers))
        beside = "".join(_label(self.write(one), 1 - self._y(one) / HEIGHT) for one in ticks)
        below = "".join(f"<span>{escape(one)}</span>" for one in self.names or self._dates())
        places = [round(self._x(n) / WIDTH, 5) for n in range(len(self.times))]
        found = {"x": places, "text": self.points} | ({"keys": self.keys} if self.keys else {})
        data = escape(json.dumps(found, ensure_ascii=False))
        legend = "".join(f'<span class="mark-name">{escape(name)}</span>' for _, name in self.marks)
        return Markup(  # noqa: S704  # all text in it is escaped above
            f'<figure class="chart" tabindex="0" role="img" aria-label="{escape(self.title)}" data-points="{data}">'
            f'<div class="y" aria-hidden="true">{beside}</div>'
            f'<div class="plot"><svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" preserveAspectRatio="none" '
            f'aria-hidden="true" focusable="false">{grid}{body}{marks}</svg></div>'
            f'<div class="x" aria-hidden="true">{below}</div>{legend}</figure>'
        )

    def _x(self, number: int) -> float:
        first, last = self.times[0], self.times[-1]
        return WIDTH / 2 if last == first else WIDTH * (self.times[number] - first) / (last - first)

    def _y(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT * (1 - min(1.0, max(0.0, share)))

    def _layer(self, layer: Layer) -> str:
        match layer:
            case Line(values, style, step):
                return f'<path class="line {style}" d="{self._line(values, step=step)}"/>'
            case Dots(values, style):
                found = [(self._x(n), self._y(one)) for n, one in enumerate(values) if one is not None]
                return f'<path class="dots {style}" d="{"".join(f"M{x:.1f} {y:.1f}h0" for x, y in found)}"/>'
            case Bars(low, high, style):
                strokes = (
                    f"M{self._x(n):.1f} {self._y(a):.1f}V{self._y(b):.1f}"
                    for n, (a, b) in enumerate(zip(low, high, strict=True))
                    if a is not None and b is not None
                )
                return f'<path class="bars {style}" d="{"".join(strokes)}"/>'
            case Band(low, high, style):
                there = [n for n, (a, b) in enumerate(zip(low, high, strict=True)) if None not in {a, b}]
                up = " ".join(f"{self._x(n):.1f},{self._y(high[n] or 0):.1f}" for n in there)
                down = " ".join(f"{self._x(n):.1f},{self._y(low[n] or 0):.1f}" for n in reversed(there))
                return f'<polygon class="band {style}" points="{up} {down}"/>' if there else ""

    def _line(self, values: Numbers, *, step: bool) -> str:
        parts, drawing = [], False
        for n, value in enumerate(values):
            if value is None:
                drawing = False
                continue
            x, y = self._x(n), self._y(value)
            parts.append(
                f"H{x:.1f}V{y:.1f}" if step and drawing else f"{'L' if drawing else 'M'}{x:.1f} {y:.1f}"
            )
            drawing = True
        return "".join(parts)

    def _dates(self) -> list[str]:
        first, last = self.times[0], self.times[-1]
        form = "%H:%M:%S" if last - first < 600 else "%H:%M" if last - first < HALF_DAY_S else "%d %b %H:%M"
        form = "%d %b %Y" if last - first > 30 * 86_400 else form
        if last == first:
            return [datetime.fromtimestamp(first, UTC).strftime(form)]
        steps = (first + (last - first) * n / (LABELS - 1) for n in range(LABELS))
        return [datetime.fromtimestamp(one, UTC).strftime(form) for one in steps]


def _label(text: str, share: float) -> str:
    """A label at one of 21 heights, which the style sheet knows: no page has a style of its own."""
    return f'<span class="at-{round(20 * share)}">{escape(text)}</span>'


def _round_values(low: float, high: float) -> list[float]:
    """Round values between two, about four of them."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * one for one in (1, 2, 2.5, 5, 10) if power * one >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def bounds(values: Sequence[float], *, least: float = 0.02) -> tuple[float, float]:
    """Round limits of an axis that holds the values."""
    low, high = min(values), max(values)
    if high - low < least:
        low, high = low - least / 2, high + least / 2
    ticks = _round_values(low, high)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else high - low
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
