"""The output of a command: aligned lines for a person, or one JSON object for a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

Value = float | int | str | None | tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Line:
    """A named value with a short description."""

    name: str
    value: Value
    meaning: str


def answer(lines: Sequence[Line], *, as_json: bool) -> None:
    """Prints the values: with full precision in JSON, with six digits in lines."""
    if as_json:
        print(json.dumps({line.name: line.value for line in lines}, allow_nan=False))
        return
    names = max(len(line.name) for line in lines)
    values = max(len(_words(line.value)) for line in lines)
    for line in lines:
        print(f"{line.name:<{names}}  {_words(line.value):<{values}}  {line.meaning}".rstrip())


def _words(value: Value) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return " ".join("none" if part is None else str(part) for part in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
