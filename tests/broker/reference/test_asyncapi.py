"""The AsyncAPI document is valid, complete and up to date, and its schemas accept real messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, ValidationError  # type: ignore[import-untyped]  # it has no stubs

from hushmq.broker.reference import asyncapi, topics_page
from hushmq.broker.reference.asyncapi import tree
from hushmq.broker.reference.topic_table import CHANNELS

ROOT = Path(__file__).parents[3]
STORED = Path(__file__).parents[1] / "contract" / "stored"
TREE = tree()

REFERENCE = {"type": "object", "required": ["$ref"], "additionalProperties": False}
ASYNCAPI_3 = {
    "type": "object",
    "required": ["asyncapi", "info", "channels", "operations", "components"],
    "additionalProperties": False,
    "properties": {
        "asyncapi": {"const": "3.0.0"},
        "defaultContentType": {"type": "string"},
        "info": {
            "type": "object",
            "required": ["title", "version"],
            "additionalProperties": False,
            "properties": {
                "title": {"type": "string"},
                "version": {"type": "string"},
                "description": {"type": "string"},
                "license": {"type": "object", "required": ["name"]},
            },
        },
        "channels": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["address", "messages"],
                "additionalProperties": False,
                "properties": {
                    "address": {"type": "string", "pattern": r"^[^?#\s]+$"},
                    "description": {"type": "string"},
                    "messages": {
                        "type": "object",
                        "additionalProperties": REFERENCE | {"properties": {"$ref": {}}},
                    },
                    "parameters": {
                        "type": "object",
                        "propertyNames": {"pattern": r"^[A-Za-z0-9_\-]+$"},
                        "additionalProperties": REFERENCE | {"properties": {"$ref": {}}},
                    },
                },
            },
        },
        "operations": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "required": ["action", "channel"],
                "additionalProperties": False,
                "properties": {
                    "action": {"enum": ["send", "receive"]},
                    "channel": REFERENCE | {"properties": {"$ref": {"pattern": "^#/channels/[^/]+$"}}},
                    "messages": {
                        "type": "array",
                        "items": REFERENCE
                        | {"properties": {"$ref": {"pattern": "^#/channels/[^/]+/messages/[^/]+$"}}},
                    },
                    "tags": {"type": "array", "items": {"type": "object", "required": ["name"]}},
                    "bindings": {
                        "type": "object",
                        "properties": {
                            "mqtt": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {
                                    "qos": {"enum": [0, 1, 2]},
                                    "retain": {"type": "boolean"},
                                    "bindingVersion": {"const": "0.2.0"},
                                },
                            }
                        },
                    },
                },
            },
        },
        "components": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "schemas": {"type": "object"},
                "parameters": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"description": {"type": "string"}},
                    },
                },
                "messages": {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "required": ["payload"],
                        "additionalProperties": False,
                        "properties": {
                            "name": {"type": "string"},
                            "contentType": {"type": "string"},
                            "payload": REFERENCE
                            | {"properties": {"$ref": {"pattern": "^#/components/schemas/"}}},
                        },
                    },
                },
            },
        },
    },
}
"""The part of the AsyncAPI 3.0.0 specification that applies to this document."""


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_document_keeps_to_the_specification() -> None:
    """Its structure conforms to AsyncAPI 3.0.0, and its payload schemas are valid JSON Schema, draft 7."""
    Draft7Validator(ASYNCAPI_3).validate(TREE)
    for schema in TREE["components"]["schemas"].values():
        Draft7Validator.check_schema(schema)


def test_the_check_can_fail() -> None:
    """The same check refuses a document with an unknown action or an unknown member."""
    for change in (
        {"asyncapi": "2.6.0"},
        {"surprise": 1},
        {"operations": {"x": {"action": "shout", "channel": {"$ref": "#/channels/policy"}}}},
        {"channels": {"x": {"address": "a b", "messages": {}}}},
    ):
        with pytest.raises(ValidationError):
            Draft7Validator(ASYNCAPI_3).validate({**TREE, **change})


def test_every_reference_leads_somewhere() -> None:
    """Every `$ref` has a target."""
    found = set(references(TREE))
    assert found
    for reference in found:
        node: Any = TREE
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_addresses_and_parameters_agree() -> None:
    """The parameters of a channel are exactly the names in braces in its address."""
    for channel in TREE["channels"].values():
        assert set(re.findall(r"{(\w+)}", channel["address"])) == set(channel["parameters"])


def test_every_channel_has_its_operations() -> None:
    """There is one operation for each role that writes or reads a channel."""
    expected = {f"{role}.send.{channel.name}" for channel in CHANNELS for role in channel.writers}
    expected |= {f"{role}.receive.{channel.name}" for channel in CHANNELS for role in channel.readers}
    assert set(TREE["operations"]) == expected


def validator(kind: str) -> Draft7Validator:
    return Draft7Validator({"$ref": f"#/components/schemas/{kind}", "components": TREE["components"]})


@pytest.mark.parametrize("file", sorted((STORED / "v1").glob("*.json")), ids=lambda file: file.stem)
def test_stored_messages_fit_the_document(file: Path) -> None:
    """The published schemas accept every message that the code accepts, and refuse unknown fields."""
    message, rules = json.loads(file.read_bytes()), validator(file.stem.split("-")[0])
    rules.validate(message)
    with pytest.raises(ValidationError):
        rules.validate({**message, "surprise": 1})


BETWEEN_FIELDS = {
    "Batch-with-too-few-states",
    "NoiseSetting-of-three-states-with-flips",
    "Policy-of-three-states-without-an-adversary",
}


@pytest.mark.parametrize(
    "file",
    [file for file in sorted((STORED / "refused").glob("*/*.json")) if file.stem not in BETWEEN_FIELDS],
    ids=lambda file: file.stem,
)
def test_stored_refusals_do_not_fit_the_document(file: Path) -> None:
    """The schemas refuse what the code refuses, except for rules across several fields, which they cannot express."""
    with pytest.raises(ValidationError):
        validator(file.stem.split("-")[0]).validate(json.loads(file.read_bytes()))


@pytest.mark.parametrize("writer", [asyncapi, topics_page])
def test_the_documents_are_up_to_date(writer: Any) -> None:
    """The files in docs/ equal what the code generates; if not, run `make docs`."""
    assert (ROOT / writer.PATH).read_text() == writer.document()
