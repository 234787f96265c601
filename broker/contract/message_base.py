"""The base model of all messages, and the field types that several of them use."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from hushmq.broker.contract.topics import LEVEL

Level = Annotated[str, Field(pattern=rf"^{LEVEL.pattern}$")]
Tick = Annotated[int, Field(ge=0, lt=2**53)]
Version = Annotated[int, Field(ge=1, lt=2**53)]
Epsilon = Annotated[float, Field(gt=0, le=20)]
Probability = Annotated[float, Field(gt=0, lt=1)]
NanoNats = Annotated[int, Field(ge=0)]

BINARY_TAG, CATEGORICAL_TAG = "two states", "more states"
"""Tags of the two forms of a Θ or noise message. They contain a space, so that no field has the same name."""


class Message(BaseModel):
    """The base of every message: frozen, strictly typed, without unknown fields, NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def field_path(location: tuple[int | str, ...]) -> list[str]:
    """Return pydantic's location of an error as the sender sees it: field names, without the tags of unions."""
    return [str(part) for part in location if part not in {BINARY_TAG, CATEGORICAL_TAG}]
