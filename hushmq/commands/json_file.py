"""JSON files that people write, read into pydantic models: a refusal names the file, the field and what it takes.

The description of a field says what it takes, as the end of a sentence: "it must be …".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from hushmq.broker.contract.problem import Problem

Number = Annotated[float, Field(description="a finite number")]
Numbers = Annotated[list[Number], Field(description="a list of numbers")]


class JsonObject(BaseModel):
    """An object of which every field is known: text is no number, nor is true, NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


M = TypeVar("M", bound=JsonObject)


def read_json(path: Path, model: type[M]) -> M:
    """The one object in a file; Problem, which says what is wrong where, if it is not what the model describes."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Problem(f"{path}: not UTF-8 text; it must be a JSON object") from None
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}; give a readable JSON file") from None
    except json.JSONDecodeError as error:
        raise Problem(f"{path}: not JSON: line {error.lineno} column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Problem(f"{path}: not usable: lists in lists without end") from None
    except ValueError as error:
        raise Problem(f"{path}: not JSON: {error}") from None
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Problem(": ".join([str(path), *_place(first["loc"]), _wrong(first, model)])) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _place(way: tuple[int | str, ...]) -> list[str]:
    """The way to a value, one text for each object on it: `chains[0]`, `transition[1][1]`."""
    found: list[str] = []
    for step in way:
        if isinstance(step, str):
            found.append(step)
        else:
            found[-1] += f"[{step}]"
    return found


def _wrong(error: ErrorDetails, model: type[JsonObject]) -> str:
    """What is wrong with a value, and what it must be."""
    way, given = error["loc"], _shown(error["input"])
    match error["type"]:
        case "extra_forbidden":
            return f"unknown field; the fields are {', '.join(_schema(model, way[:-1])['properties'])}"
        case "model_type":
            return f"{given}; it must be an object {{…}}"
        case "missing":
            given = "missing"
    return f"{given}; it must be {_schema(model, way)['description']}"


def _schema(model: type[JsonObject], way: tuple[int | str, ...]) -> dict[str, Any]:
    """The part of a model's JSON Schema that describes a value."""
    whole = found = model.model_json_schema()
    for step in way:
        found = found["properties"][step] if isinstance(step, str) else found["items"]
        for choice in found.get("anyOf", [found]):
            if choice.get("type") != "null":
                found = {**choice, **found}
        if "$ref" in found:
            found = whole["$defs"][found["$ref"].rsplit("/", 1)[1]]
    return found


def _shown(value: object) -> str:
    """A value as a message shows it: short ones as they are, long ones by their kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}…"
