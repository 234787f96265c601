"""Generates a settings reference in Markdown from the models that validate the settings."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
import types
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined


def reference(model: type[BaseModel], head: str) -> str:
    """Return the whole reference: `head`, then every section with its settings."""
    return head + "".join(_section(model, "")) + "\n"


def forms(models: Iterable[type[BaseModel]]) -> str:
    """Return a list of parts that are written as inline tables: their settings, and what they are."""
    return "".join(f"- `{_inline(model)}`: {_purpose(model)}\n" for model in models)


def _section(model: type[BaseModel], name: str) -> list[str]:
    kind = get_args(model.model_fields["kind"].annotation)[0] if "kind" in model.model_fields else None
    title = f"`[{name}]`" if name else "The top of the file"
    title += f' with `kind = "{kind}"`' if kind else ""
    parts = [f"\n## {title}\n\n{_purpose(model)}\n\n"]
    rows, below = [], []
    for key, field in model.model_fields.items():
        sections = _sections(field.annotation)
        tagged = _discriminated(field)
        forms = len(sections) > 1 and not tagged
        if key == "kind":
            continue
        if not sections or forms or _choices(field.annotation):
            rows.append(_row(model, key, field))
        if not sections or forms:
            continue
        mapping = get_origin(field.annotation) is dict
        path = (f"{name}.{key}" if name else key) + (".<name>" if mapping else "")
        for choice in sections if tagged else sections[:1]:
            below += _section(choice, path)
    if rows:
        parts += [_HEADINGS, *rows]
    return parts + below


_HEADINGS = "| setting | takes | default | |\n|---|---|---|---|\n"


def _purpose(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _description(model: type[BaseModel], key: str) -> str:
    """Return the docstring below a field of a model."""
    for outer in ast.parse(textwrap.dedent(inspect.getsource(model))).body:
        for field, below in pairwise(getattr(outer, "body", [])):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ) if name == key:
                    return " ".join(text.split())
    return ""


def _inline(model: type[BaseModel]) -> str:
    """Return the shape of a part that is written as an inline table."""
    return "{ " + ", ".join(key for key, one in model.model_fields.items() if one.is_required()) + " }"


def _row(model: type[BaseModel], key: str, field: FieldInfo) -> str:
    if field.is_required():
        default = "*required*"
    elif field.default is None or field.default is PydanticUndefined:
        default = "absent"
    else:
        default = f"`{_toml(field.default)}`"
    takes = _takes(field.annotation, field.metadata).replace("|", "\\|")
    return f"| `{key}` | {takes} | {default} | {field.description or _description(model, key)} |\n"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # JSON's strings, numbers, booleans and lists are TOML's


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that a type contains."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [section for inner in get_args(annotation) for section in _sections(inner)]


def _discriminated(field: FieldInfo) -> bool:
    """Whether `kind` says which section a field or each value of its table is."""
    if field.discriminator is not None:
        return True
    values = get_args(field.annotation)[1:] if get_origin(field.annotation) is dict else ()
    rules = (rule for one in values for rule in getattr(one, "__metadata__", ()))
    return any(isinstance(rule, FieldInfo) and rule.discriminator is not None for rule in rules)


def _choices(annotation: Any) -> list[Any]:
    """Return the literal types that are allowed instead of a section."""
    inner = get_args(annotation) if get_origin(annotation) in {Union, types.UnionType} else ()
    return [choice for choice in inner if get_origin(choice) is Literal]


_NAMES = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`", Path: "path"}
_BOUNDS = {Ge: ("ge", "≥"), Gt: ("gt", ">"), Le: ("le", "≤"), Lt: ("lt", "<")}


def _takes(annotation: Any, metadata: list[Any] | tuple[Any, ...] = ()) -> str:
    """Describe a type and its bounds in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _takes(inner[0], (*annotation.__metadata__, *metadata))
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in inner)
    if origin in {Union, types.UnionType}:
        return " or ".join(_takes(choice, metadata) for choice in inner if choice is not type(None))
    if origin is tuple:
        least = [rule.min_length for rule in metadata if isinstance(rule, MinLen)]
        return f"list of {_takes(inner[0])}" + "".join(
            f", at least {'one' if number == 1 else number}" for number in least
        )
    if origin is dict:
        return f"table of {_takes(inner[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"`{_inline(annotation)}`"
    return _NAMES[annotation] + _bounds(metadata)


def _bounds(metadata: list[Any] | tuple[Any, ...]) -> str:
    found: list[str] = []
    for item in metadata:
        for rule in getattr(item, "metadata", [item]):
            if type(rule) in _BOUNDS:
                attribute, sign = _BOUNDS[type(rule)]
                found.append(f"{sign} {getattr(rule, attribute)}")
            elif pattern := getattr(rule, "pattern", None):
                found.append(f"matching `{pattern}`")
            elif isinstance(rule, MaxLen):
                found.append(f"at most {rule.max_length} long")
    return f" {', '.join(found)}" if found else ""
