"""How numbers, times and probabilities are written on pages."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime

from markupsafe import Markup, escape

DAY_S = 86_400


def ago(seconds: float | None, now: float | None = None) -> str:
    """How long ago a time was, in words."""
    if seconds is None:
        return "never"
    passed = (time.time() if now is None else now) - seconds
    if passed < 5:
        return "now"
    for length, word in ((DAY_S, "d"), (3600, "h"), (60, "min")):
        if passed >= 2 * length:
            return f"{passed / length:.0f} {word} ago"
    return f"{passed:.0f} s ago"


def moment(seconds: float | None) -> str:
    """A time in UTC, to the second."""
    return "–" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float) -> str:
    """A length of time in words."""
    for length, word in ((DAY_S, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= length:
            number = seconds / length
            text = f"{number:.1f}".removesuffix(".0")
            return f"{text} {word}{'' if text == '1' else 's'}"
    return f"{1000 * seconds:g} ms"


def percent(share: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    return "–" if share is None else f"{100 * share:.{digits}f}%"


def at_most(share: float) -> str:
    """A probability as a percentage, rounded up: no promise is overstated. What is below 1 never reads as 100%."""
    for digits in (1, 2, 4):
        shown = math.ceil(10 ** (digits + 2) * share - 1e-9) / 10**digits
        if shown < 100:
            return f"≤ {shown:.{digits}f}%"
    return "≤ 100%"


def with_code(text: str) -> Markup:
    """A sentence in which what stands between backticks is shown as code; everything is escaped."""
    parts = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(one) if n % 2 else escape(one) for n, one in enumerate(parts)
    )
