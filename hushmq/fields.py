"""JSON files that people write, read so that every refusal names the file, the field and what it takes."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from hushmq.broker.contract.problem import Problem


def read_object(path: Path) -> Fields:
    """The one JSON object in a file, or a `Problem` that says what the file is instead."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Problem(f"{path}: not UTF-8 text; it must be a JSON object") from None
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}; give a readable JSON file") from None
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise Problem(f"{path}: not JSON: line {error.lineno} column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Problem(f"{path}: not usable: lists in lists without end") from None
    except ValueError as error:
        raise Problem(f"{path}: not JSON: {error}") from None
    return Fields.of(value, str(path))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one JSON object; `where` is the file and the way to the object inside it."""

    values: dict[str, Any]
    where: str

    @classmethod
    def of(cls, value: object, where: str) -> Fields:
        if not isinstance(value, dict):
            raise Problem(f"{where}: {_kind(value)}; it must be an object {{…}}")
        return cls(value, where)

    def only(self, known: Collection[str]) -> None:
        """Refuse a field of any other name: it may be a slip of the pen."""
        for name in self.values:
            if name not in known:
                self.refuse(name, f"unknown field; the fields are {', '.join(known)}")

    def refuse(self, name: str, why: str) -> NoReturn:
        raise Problem(f"{self.where}: {name}: {why}")

    def fail(self, why: str) -> NoReturn:
        """Refuse the object as a whole."""
        raise Problem(f"{self.where}: {why}")

    def value(self, name: str, takes: str) -> Any:
        """A field that must be there."""
        if name not in self.values:
            self.refuse(name, f"missing; it must be {takes}")
        return self.values[name]

    def number(self, name: str, takes: str, *, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number strictly inside (low, high)."""
        value = self.value(name, takes)
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else _float(value)
        if not low < number < high:
            self.refuse(name, f"{_kind(value)}; it must be {takes}")
        return number

    def whole(self, name: str, takes: str, *, low: int, high: int | None = None) -> int:
        """A whole number from low to high, both included."""
        value = self.value(name, takes)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or value < low or (high is not None and value > high):
            self.refuse(name, f"{_kind(value)}; it must be {takes}")
        return int(value)

    def numbers(self, name: str, takes: str) -> list[float]:
        """A list of finite numbers."""
        return self._numbers(self.value(name, takes), name, takes)

    def table(self, name: str, takes: str) -> list[list[float]]:
        """A list of lists of finite numbers, all of one length."""
        rows = self.value(name, takes)
        if not isinstance(rows, list):
            self.refuse(name, f"{_kind(rows)}; it must be {takes}")
        table = [self._numbers(row, f"{name}[{i}]", "a list of numbers") for i, row in enumerate(rows)]
        if len({len(row) for row in table}) > 1:
            self.refuse(name, "rows of different lengths; it must be square, one row and column per state")
        return table

    def _numbers(self, values: object, name: str, takes: str) -> list[float]:
        if not isinstance(values, list):
            self.refuse(name, f"{_kind(values)}; it must be {takes}")
        numbers = Fields({f"{name}[{i}]": value for i, value in enumerate(values)}, self.where)
        return [numbers.number(one, "a finite number") for one in numbers.values]

    def objects(self, name: str, takes: str) -> list[Fields]:
        """A list of objects, each knowing its place."""
        value = self.value(name, takes)
        if not isinstance(value, list):
            self.refuse(name, f"{_kind(value)}; it must be {takes}")
        return [Fields.of(one, f"{self.where}: {name}[{i}]") for i, one in enumerate(value)]


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _kind(value: object) -> str:
    """A value as a message shows it: short things as they are, long things by kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
