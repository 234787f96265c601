"""The base model of all messages, and the field types that several of them use."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hushmq.broker.contract.topics import LEVEL

Level = Annotated[str, Field(pattern=rf"^{LEVEL.pattern}$")]


def _squares(number: float) -> float:
    """Refuse a number whose square, or the square of whose reciprocal, is none."""
    if number and not LEAST <= abs(number) <= WIDEST:
        raise ValueError(f"must be 0 or between {LEAST:g} and {WIDEST:g} in size")
    return number


# Every number has a range that its sums and squares survive: whoever reads a message adds up, divides and squares what
# it says. Whole numbers are those that JSON carries exactly; the others leave room for squares and products.
LEAST, WIDEST = 1e-150, 1e150
Number = Annotated[float, AfterValidator(_squares)]
Magnitude = Annotated[float, Field(ge=0), AfterValidator(_squares)]
Tick = Annotated[int, Field(ge=0, lt=2**53)]
Version = Annotated[int, Field(ge=1, lt=2**53)]
Positive = Annotated[int, Field(ge=1, lt=2**53)]
Counter = Annotated[int, Field(ge=0, lt=2**53)]
Epsilon = Annotated[float, Field(gt=0, le=20), AfterValidator(_squares)]
Probability = Annotated[float, Field(gt=0, lt=1), AfterValidator(_squares)]
NoisyCount = Annotated[int, Field(gt=-(2**62), lt=2**62)]
"""Sums of noisy counts are longer than a count, and still fit a column of 64 bits."""
NoiseScale = Annotated[float, Field(gt=0, le=1e12), AfterValidator(_squares)]
"""Scale of discrete Laplace noise: the reciprocal of a tilt that can be charged, in nano-nats."""
NanoNats = Annotated[int, Field(ge=0, lt=2**53)]

BINARY_TAG, CATEGORICAL_TAG, REGIME_TAG = "two states", "more states", "hidden regimes"
"""Tags of the forms of a Θ or noise message. They contain a space, so that no field has the same name."""


class Message(BaseModel):
    """The base of every message: frozen, strictly typed, without unknown fields, NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def field_path(location: tuple[int | str, ...]) -> list[str]:
    """Return pydantic's location of an error as the sender sees it: field names, without the tags of unions."""
    return [str(part) for part in location if part not in {BINARY_TAG, CATEGORICAL_TAG, REGIME_TAG}]
