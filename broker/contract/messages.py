"""One pydantic model per message of the wire contract. A message carries its version `v`; unknown fields are refused.

Within one version, the meaning of a field, its unit and whether it is required never change. A new optional field
needs a new version, because readers refuse unknown fields: a device must not apply half of a setting that it does
not understand. A reader knows all versions up to its own (`v: Literal[1, 2] = 2`); what an older one lacks has its
default.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from hushmq.broker.contract.answer_message import Answer
from hushmq.broker.contract.broken_promise import broken_promise
from hushmq.broker.contract.message_base import (
    Counter,
    Epsilon,
    Level,
    Magnitude,
    Message,
    NanoNats,
    NoiseScale,
    NoisyCount,
    Number,
    Positive,
    Tick,
    Version,
    field_path,
)
from hushmq.broker.contract.noise_message import NoiseMessage
from hushmq.broker.contract.packing import packed_size
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.theta_message import ThetaMessage
from hushmq.broker.contract.topics import LEVEL
from hushmq.pufferfish.adversary import Adversary

MAX_PAYLOAD_BYTES = 256 * 1024

MOST_ENDED = 16
"""Ended epochs in a ledger's message at most."""

UtcTime = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]

EpochReason = Literal["meaning", "contradiction", "ops", "restored"]
"""Why an epoch of a stream began: its states mean something else, Θ was contradicted, or ops raised its number."""


class NoiseSetting(Message):
    """`noise/<stream>[/<device>]`, retained, signed by the calibrator: the learned Θ and the noise for it."""

    v: Literal[1] = 1
    version: Version
    policy: Version
    cohort: Level
    stream: Level
    device: Level | None = None
    theta: ThetaMessage
    noise: NoiseMessage

    @model_validator(mode="after")
    def _same_states(self) -> Self:
        if self.theta.k != self.noise.k:
            raise ValueError("theta and noise must be for the same number of states")
        return self


class Batch(Message):
    """`z/<shard>/<device>/<stream>`: a run of consecutive ticks with their sanitized states.

    `after` is the last tick that the device used before `first`. The ticks between them are a gap: they are never sent.
    """

    v: Literal[1] = 1
    first: Tick
    after: Tick | None
    count: Annotated[int, Field(ge=1, le=65_536)]
    bits: Annotated[int, Field(ge=1, le=8)] = 1
    states: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$", repr=False)]
    noise: Version

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.after is not None and self.after >= self.first:
            raise ValueError("after must be below first")
        if self.last >= 2**53:
            raise ValueError("the last tick must be below 2^53")
        size = packed_size(self.count, self.bits)
        if len(self.states) != 4 * -(-size // 3) or self.states.count("=") != -size % 3:
            raise ValueError("states must have the length that count and bits determine")
        return self


class Counted(Message):
    """The ticks of one stream that are counted durably: all up to `highest` except the holes (inclusive ranges)."""

    highest: Tick
    holes: Annotated[tuple[tuple[Tick, Tick], ...], Field(max_length=4096)] = ()

    @model_validator(mode="after")
    def _rising(self) -> Self:
        ends = [tick for hole in self.holes for tick in hole]
        if any(first > last for first, last in self.holes) or any(
            left[1] >= right[0] for left, right in pairwise(self.holes)
        ):
            raise ValueError("holes must be disjoint ranges in rising order")
        if ends and ends[-1] >= self.highest:
            raise ValueError("holes must lie below highest")
        return self


class Seen(Message):
    """`seen/<device>`, retained: the ticks that the calibrator has counted durably; the device may delete them."""

    v: Literal[1] = 1
    streams: dict[Level, Counted]


class Refusal(Message):
    """A pushed version that the device refused, and why."""

    version: Version | None
    reason: Reason


class StreamStatus(Message):
    """One stream of one device, in ticks: sampled = counted + buffered + dropped."""

    noise: Version | None
    refused: Refusal | None = None
    sampled: Counter
    buffered: Counter
    dropped: Counter


class Status(Message):
    """`status/<device>`, retained; also the last will, with `online` false and nothing else.

    `online` is null where the device hides its presence: it then has no last will, and sends `status` at fixed moments.
    """

    v: Literal[1, 2] = 2
    online: bool | None
    policy: Version | None = None
    refused: Refusal | None = None
    streams: dict[Level, StreamStatus] = Field(default={})


class SharedBy(Message):
    """Who shares an account: these streams, on each of so many devices."""

    streams: Annotated[tuple[Level, ...], Field(min_length=1, max_length=64)]
    devices: Positive


class Release(Message):
    """`release/<stream>/<window>/<scope>`, retained: the noisy histogram of one closed window."""

    v: Literal[1, 2] = 2
    stream: Level
    window: Level
    scope: Level
    first: Tick
    last: Tick
    devices: Positive
    ticks: Positive
    states: tuple[str, ...]
    counts: tuple[NoisyCount, ...]
    frequencies: tuple[Number, ...]
    standard_errors: tuple[Magnitude, ...]
    intervals: tuple[tuple[Number, Number], ...]
    """For each state, a 95% confidence interval of its frequency."""
    scale: NoiseScale
    tilt: NanoNats
    loss: Magnitude
    budget: Epsilon
    adversary: Adversary
    theta: ThetaMessage
    entry: Positive
    account: SharedBy | None = None
    """Whose account the loss is of; None where it is this stream's alone."""
    stride: Annotated[int, Field(ge=1)] = 1
    """Of so many ticks every device publishes one: `first`, `last` and `ticks` count strides, Θ is about ticks."""
    unbiased: tuple[Number, ...] | None = None
    """The unbiased frequencies, where `frequencies` are the nearest proper ones; else None: they are the same."""
    smoothed: tuple[Number, ...] | None = None
    """Frequencies that earlier releases of this topic and Θ went into as well (docs/estimation.md); None in releases
    that devices make, and in sums of these."""
    smoothed_intervals: tuple[tuple[Number, Number], ...] | None = None
    """For each state, an interval that holds its frequency with 95% probability, given all of that."""
    period_ms: Annotated[int, Field(ge=1)] | None = None
    """How long a tick lasts, or a stride; None in releases made before it was stated, as `start` and `end` are."""
    start: UtcTime | None = None
    """When the window began, UTC: that of `first`."""
    end: UtcTime | None = None
    """When it ended: that of the tick after `last`."""
    bias: Magnitude = 0.0
    """The most that unbiased frequencies are biased by: above 0 where several noise settings were in force."""
    answers: dict[Level, Answer] = Field(default={}, max_length=64)
    """By name, the answers to the policy's queries about this window (docs/queries.md)."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.first > self.last:
            raise ValueError("first must not be above last")
        if (self.smoothed is None) != (self.smoothed_intervals is None):
            raise ValueError("smoothed and smoothed_intervals must be given together")
        for more in (self.unbiased, self.smoothed, self.smoothed_intervals):
            if more is not None and len(more) != len(self.states):
                raise ValueError("unbiased, smoothed and smoothed_intervals must be as long as states")
        columns = (self.states, self.counts, self.frequencies, self.standard_errors, self.intervals)
        if len({len(column) for column in columns}) != 1:
            raise ValueError(
                "states, counts, frequencies, standard_errors and intervals must have the same length"
            )
        if self.theta.k != len(self.states):
            raise ValueError("theta must be for as many states as states names")
        return self


class Account(Message):
    """One audience's account: its budget, the loss so far under Θ, and the rest of the budget."""

    budget: Epsilon
    loss: Magnitude
    left: Number
    theta: ThetaMessage
    undecided: Magnitude | None = None
    """The loss so far to the undecided adversary, who knows Θ and not the chain (docs/theory-world.md, W2)."""


class Misfit(Message):
    """The band of lags whose correlation exceeds that of the fitted chains most, and significantly."""

    first: Positive
    last: Positive
    seen: Number
    fitted: Number
    covered: bool
    """Whether Θ contains a chain with the correlation seen. A policy may ask that misfit is only reported."""


class EndedEpoch(Message):
    """An epoch of a stream that has ended, and what its ticks have lost to each audience under the Θ it ended with.

    Where that is more than the budget, the promise did not hold for these ticks.
    """

    number: Positive
    first: Tick
    last: Tick
    reason: EpochReason
    """Why the next epoch began."""
    operator: Magnitude
    public: Magnitude


class LedgerState(Message):
    """`ledger/<stream>`, retained: both audiences' accounts of the present epoch, and those that have ended.

    `head` is the digest of the last entry, which covers all entries before it. `seal` is the calibrator's signature
    over cohort, stream, entries and head; it reveals a database restored from an old backup
    (calibrator/ledger/high_water_mark.py).
    """

    v: Literal[1, 2] = 2
    """Version 2 has all fields; what a message of version 1 lacks has its default."""
    stream: Level
    adversary: Adversary
    entries: Counter
    operator: Account
    public: Account
    late: Counter = 0
    """Ticks that arrived after their window had closed: they are counted, but in no release."""
    stopped: str | None = None
    """Why the stream releases nothing further; None while it releases."""
    misfit: Misfit | None = None
    """How far the data deviates from the chains that the guarantee assumes; None while there is no evidence of it."""
    epoch: Positive = 1
    ended: Annotated[tuple[EndedEpoch, ...], Field(max_length=MOST_ENDED)] = ()
    """The epochs before it, the oldest first; where there are more, those with the largest losses and the newest."""
    head: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    seal: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{86}==$")] | None = None
    account: SharedBy | None = None
    """Whose accounts these are; None where they are this stream's alone."""

    def broken_promises(self) -> list[str]:
        """For each ended epoch and audience whose promise did not hold, a sentence that says so."""
        said = [
            broken_promise(
                audience=audience, first=ended.first, last=ended.last, budget=account.budget, loss=loss
            )
            for ended in self.ended
            for audience, loss, account in (
                ("operator", ended.operator, self.operator),
                ("public", ended.public, self.public),
            )
        ]
        return [sentence for sentence in said if sentence is not None]


M = TypeVar("M", bound=BaseModel)


def encode(message: BaseModel) -> bytes:
    """Return the payload of a message: compact JSON."""
    return message.model_dump_json().encode()


def decode(model: type[M], payload: bytes) -> M:
    """Return the message in a payload; raise Rejected, whose text never repeats the payload's values."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Rejected(Reason.TOO_LARGE, f"{len(payload)} bytes, at most {MAX_PAYLOAD_BYTES} are read")
    try:
        message = model.model_validate_json(payload)
    except ValidationError as error:
        raise _rejection(model, error) from None
    except (
        ArithmeticError,
        RecursionError,
    ) as error:  # a number within its range that a check cannot compute with
        raise Rejected(Reason.MALFORMED, f"{model.__name__}: {type(error).__name__} in a check") from None
    # The default of `v` is for those who create a message; in a received one it is required.
    if "v" in model.model_fields and "v" not in message.model_fields_set:
        raise Rejected(Reason.UNKNOWN_VERSION, f"{model.__name__}: v: Field required")
    return message


def _rejection(model: type[BaseModel], error: ValidationError) -> Rejected:
    """Return a rejection that names the first invalid field and the rule it breaks, without its value.

    A wrong version takes precedence, because it also explains unknown fields.
    """
    errors = error.errors(include_input=False, include_context=False, include_url=False)
    first = next((each for each in errors if each["loc"][-1:] == ("v",)), errors[0])
    # The sender chooses the names of unknown fields: only those that could be a name of the contract are repeated.
    path = field_path(first["loc"])
    where = ".".join(part if LEVEL.fullmatch(part) else "…" for part in path) or "the message"
    reason = Reason.UNKNOWN_VERSION if first["loc"][-1:] == ("v",) else Reason.MALFORMED
    what = "unknown kind" if first["type"] == "union_tag_invalid" else first["msg"]
    return Rejected(reason, f"{model.__name__}: {where}: {what}")


def canonical(message: BaseModel, *, as_sent: bool = False) -> bytes:
    """Return the bytes of a message that are signed: JSON with sorted keys, without spaces, in UTF-8.

    With `as_sent`, only the fields that its sender wrote: a message signed before a field existed stays valid.
    """
    return json.dumps(
        message.model_dump(mode="json", exclude_unset=as_sent),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    ).encode()
