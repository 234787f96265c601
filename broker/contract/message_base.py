"""What all messages share: one base model, and the types that several of them use."""

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

TWO, MORE = "two states", "more states"
"""Which shape a part has that differs with the number of states: no field's name, since it has a space."""


class Message(BaseModel):
    """Frozen, strict, no unknown fields, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def way(location: tuple[int | str, ...]) -> list[str]:
    """The names that lead to a wrong value, as the writer of the message knows them."""
    return [str(part) for part in location if part not in {TWO, MORE}]
