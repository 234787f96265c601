"""Parse a value from text: a number, a label, or the value at a path in JSON. Unreadable text is never logged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hushmq.agent.sources.resample import Value

LONGEST = 65_536
"""The longest text read, in bytes."""


class Unreadable(Exception):
    """Raised when a text holds no value. Carries nothing of the text."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Parses texts of one form. With `where`, JSON in which some path has another value is ignored."""

    form: Literal["number", "label", "json"] = "number"
    path: str | None = None
    where: Mapping[str, Value] = field(default_factory=dict)

    def read(self, text: bytes) -> Value | None:
        """The value of a text; None if the text is ignored or holds null. Raises Unreadable."""
        try:
            if len(text) > LONGEST:
                raise Unreadable
            match self.form:
                case "number":
                    return float(text)
                case "label":
                    return text.decode().strip()
                case "json":
                    return self._from_json(json.loads(text))
        except (ValueError, RecursionError):
            raise Unreadable from None

    def _from_json(self, tree: object) -> Value | None:
        for path, expected in self.where.items():
            try:
                found = _at(tree, path)
            except Unreadable:
                return None
            if found != expected or isinstance(found, bool) != isinstance(expected, bool):
                return None
        found = tree if self.path is None else _at(tree, self.path)
        if found is None or isinstance(found, str | int | float):
            return found
        raise Unreadable


def _at(tree: object, path: str) -> object:
    """The value at a dotted path, in which a number is an index into a list; raises Unreadable."""
    for step in path.split("."):
        if isinstance(tree, dict) and step in tree:
            tree = tree[step]
        elif isinstance(tree, list) and step.isdecimal() and int(step) < len(tree):
            tree = tree[int(step)]
        else:
            raise Unreadable
    return tree
