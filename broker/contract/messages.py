"""One model per message of the contract. A message carries its version `v`; anything unexpected is refused.

What may never change within version 1: the meaning of a field, its unit, its being required. A new optional
field needs a new version, because an unknown field is refused (a device that does not understand a setting
must not half-apply it).
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from hushmq.broker.contract.message_base import Epsilon, Level, Message, NanoNats, Tick, Version, way
from hushmq.broker.contract.noise_message import Noise
from hushmq.broker.contract.packing import packed_size
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.theta_message import Theta
from hushmq.broker.contract.topics import LEVEL
from hushmq.pufferfish.binary.stream_loss import Adversary
from hushmq.pufferfish.window_method import Method, why_not

LARGEST = 256 * 1024


class Threshold(Message):
    """State 1 at or above `at`, state 0 below; within `hysteresis` of it the state stays what it was."""

    kind: Literal["threshold"] = "threshold"
    at: float
    hysteresis: Annotated[float, Field(ge=0)] = 0.0


class Bins(Message):
    """State n from edge n on, up to edge n+1; within `hysteresis` of an edge the state stays what it was."""

    kind: Literal["bins"] = "bins"
    edges: Annotated[tuple[float, ...], Field(min_length=1, max_length=255)]
    hysteresis: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if any(not low < high for low, high in pairwise(self.edges)):
            raise ValueError("edges must rise")
        return self


class Labels(Message):
    """A state's own name stands for it; `aliases` are further names, each with the state it stands for."""

    kind: Literal["labels"] = "labels"
    aliases: dict[str, str] = Field(default={}, max_length=1024)


class Audiences(Message):
    """ε for whoever reads the sanitized stream, and for whoever reads only releases."""

    operator: Epsilon
    public: Epsilon


class Window(Message):
    """A tumbling window: ticks n·length … (n+1)·length − 1 for every n."""

    ticks: Annotated[int, Field(ge=1, le=2**40)]
    scopes: Annotated[tuple[Literal["cohort", "device"], ...], Field(min_length=1, max_length=2)] = (
        "cohort",
    )
    """One histogram for the cohort, one for each device, or both; each is paid for on its own."""
    proper: bool = False
    """Whether frequencies are moved to the nearest ones that are not negative and sum to one."""
    method: Method = "least-noise"
    """By which theorem its noise is chosen; by default whichever is valid and adds least
    (pufferfish/window_method.py)."""

    @model_validator(mode="after")
    def _each_scope_once(self) -> Self:
        if len(set(self.scopes)) != len(self.scopes):
            raise ValueError("a scope is named once")
        return self


class DeviceWindow(Message):
    """A tumbling window that the device itself counts and releases, with discrete Laplace noise of this scale.

    It costs each tick 1/scale (two states) or 2/scale (more) in both audiences' accounts.
    """

    ticks: Annotated[int, Field(ge=1, le=2**40)]
    scale: Annotated[float, Field(gt=0, le=1e12)]


class Assumption(Message):
    """Θ before any evidence, and the region that Θ always contains however much evidence there is."""

    start: Theta
    floor: Theta

    @model_validator(mode="after")
    def _start_contains_floor(self) -> Self:
        if self.start.k != self.floor.k:
            raise ValueError("start and floor must be for the same number of states")
        if not self.start.contains(self.floor):
            raise ValueError("start must contain floor")
        return self


class StreamPolicy(Message):
    """What ops decide for one stream."""

    states: Annotated[tuple[str, ...], Field(min_length=2, max_length=256)]
    period_ms: Annotated[int, Field(ge=1, le=86_400_000)]
    discretiser: Annotated[Threshold | Bins | Labels, Field(discriminator="kind")]
    theta: Assumption
    adversary: Adversary = "informed"
    epsilon: Audiences
    windows: Annotated[dict[Level, Window], Field(max_length=16)]
    device_windows: dict[Level, DeviceWindow] = Field(default={}, max_length=16)
    learning: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of a window's public tilt that pays for what the calibrator learns from it."""
    misfit: Literal["cover", "report"] = "cover"
    """Whether Θ also covers correlation over long lags that a first-order chain does not have, or it is only told."""

    @model_validator(mode="after")
    def _a_window_has_one_maker(self) -> Self:
        if self.windows.keys() & self.device_windows.keys():
            raise ValueError(
                "a window is the calibrator's or the device's, not both: give them different names"
            )
        return self

    @model_validator(mode="after")
    def _theta_fits(self) -> Self:
        if self.theta.start.k != len(self.states):
            shape = "{q, r}" if len(self.states) == 2 else f"{{low, high}} with {len(self.states)} rows each"
            raise ValueError(f"theta must be {shape} for {len(self.states)} states")
        if len(self.states) > 2 and self.adversary != "prior":
            raise ValueError(
                "against an adversary who knows other states only two states are offered: "
                'with more, say adversary = "prior"'
            )
        return self

    @model_validator(mode="after")
    def _methods_hold(self) -> Self:
        for name, window in self.windows.items():
            reason = why_not(window.method, self.adversary, self.theta.start.chains)
            if reason is not None:
                raise ValueError(f"windows.{name}.method: {reason}")
        return self

    @model_validator(mode="after")
    def _discretiser_fits(self) -> Self:
        if len(set(self.states)) != len(self.states):
            raise ValueError("states must have different names")
        if isinstance(self.discretiser, Threshold) and len(self.states) != 2:
            raise ValueError("a threshold makes two states")
        if isinstance(self.discretiser, Bins) and len(self.discretiser.edges) + 1 != len(self.states):
            raise ValueError("bins make one state more than they have edges")
        if isinstance(self.discretiser, Labels) and not set(self.discretiser.aliases.values()) <= set(
            self.states
        ):
            raise ValueError("aliases must stand for states of this stream")
        return self


class Policy(Message):
    """`policy`, retained, signed by ops: what every device of the cohort does."""

    v: Literal[1] = 1
    version: Version
    cohort: Level
    streams: Annotated[dict[Level, StreamPolicy], Field(min_length=1, max_length=64)]


class NoiseSetting(Message):
    """`noise/<stream>[/<device>]`, retained, signed by the calibrator: Θ now believed and the noise for it."""

    v: Literal[1] = 1
    version: Version
    policy: Version
    cohort: Level
    stream: Level
    device: Level | None = None
    theta: Theta
    noise: Noise

    @model_validator(mode="after")
    def _same_states(self) -> Self:
        if self.theta.k != self.noise.k:
            raise ValueError("theta and noise must be for the same number of states")
        return self


class Batch(Message):
    """`z/<shard>/<device>/<stream>`: a run of ticks, each state already perturbed.

    `after` is the last tick this device made before `first`: what lies between is a gap, and never comes.
    """

    v: Literal[1] = 1
    first: Tick
    after: Tick | None
    count: Annotated[int, Field(ge=1, le=65_536)]
    bits: Annotated[int, Field(ge=1, le=8)] = 1
    states: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]*={0,2}$")]
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
            raise ValueError("states do not have the length that count and bits ask for")
        return self


class Counted(Message):
    """What is durably counted of one stream: everything up to `highest` but the holes (inclusive ranges)."""

    highest: Tick
    holes: Annotated[tuple[tuple[Tick, Tick], ...], Field(max_length=4096)] = ()

    @model_validator(mode="after")
    def _rising(self) -> Self:
        ends = [tick for hole in self.holes for tick in hole]
        if any(first > last for first, last in self.holes) or any(
            left[1] >= right[0] for left, right in pairwise(self.holes)
        ):
            raise ValueError("holes must be ranges that rise and do not touch each other")
        if ends and ends[-1] >= self.highest:
            raise ValueError("holes must lie below highest")
        return self


class Seen(Message):
    """`seen/<device>`, retained: what the calibrator has durably counted, so the device may forget it."""

    v: Literal[1] = 1
    streams: dict[Level, Counted]


class Refusal(Message):
    """A pushed version that the device refused, and why."""

    version: int | None
    reason: Reason


class StreamStatus(Message):
    """One stream on one device. sampled = counted + buffered + dropped, in ticks."""

    noise: Version | None
    refused: Refusal | None = None
    sampled: Annotated[int, Field(ge=0)]
    buffered: Annotated[int, Field(ge=0)]
    dropped: Annotated[int, Field(ge=0)]


class Status(Message):
    """`status/<device>`, retained, and the last will (online false, nothing else known)."""

    v: Literal[1] = 1
    online: bool
    policy: Version | None = None
    refused: Refusal | None = None
    streams: dict[Level, StreamStatus] = Field(default={})


class Release(Message):
    """`release/<stream>/<window>/<scope>`, retained: a noisy histogram of one closed window."""

    v: Literal[1] = 1
    stream: Level
    window: Level
    scope: Level
    first: Tick
    last: Tick
    devices: Annotated[int, Field(ge=1)]
    ticks: Annotated[int, Field(ge=1)]
    states: tuple[str, ...]
    counts: tuple[int, ...]
    frequencies: tuple[float, ...]
    standard_errors: tuple[Annotated[float, Field(ge=0)], ...]
    intervals: tuple[tuple[float, float], ...]
    """For each state, where its frequency lies with 95% confidence."""
    scale: Annotated[float, Field(gt=0)]
    tilt: NanoNats
    loss: Annotated[float, Field(ge=0)]
    budget: Epsilon
    adversary: Adversary
    theta: Theta
    entry: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.first > self.last:
            raise ValueError("first must not be above last")
        columns = (self.states, self.counts, self.frequencies, self.standard_errors, self.intervals)
        if len({len(column) for column in columns}) != 1:
            raise ValueError(
                "states, counts, frequencies, standard_errors and intervals must be equally many"
            )
        if self.theta.k != len(self.states):
            raise ValueError("theta must be for as many states as there are")
        return self


class Account(Message):
    """One audience's account: the loss so far under Θ, and what is left of the budget."""

    budget: Epsilon
    loss: Annotated[float, Field(ge=0)]
    left: float
    theta: Theta


class Misfit(Message):
    """The band of lags over which correlation exceeds that of the fitted chains most, beyond doubt."""

    first: Annotated[int, Field(ge=1)]
    last: Annotated[int, Field(ge=1)]
    seen: float
    fitted: float
    covered: bool
    """Whether Θ reaches so far that a chain in it has the correlation seen; a policy may want it told only."""


class LedgerState(Message):
    """`ledger/<stream>`, retained: both audiences' accounts.

    `head` is the digest of the last entry, which covers all before it; `seal` is the calibrator's signature
    over cohort, stream, entries and head, so that an old database is found out (calibrator/ledger/high_water_mark.py).
    """

    v: Literal[1] = 1
    stream: Level
    adversary: Adversary
    entries: Annotated[int, Field(ge=0)]
    operator: Account
    public: Account
    late: Annotated[int, Field(ge=0)] = 0
    """Ticks that came after their window had closed: counted, in no release."""
    stopped: str | None = None
    """Why nothing more is released, if that is so."""
    misfit: Misfit | None = None
    """How far the data is from the chains that the promise assumes; none before there is evidence, or without it."""
    head: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    seal: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{86}==$")] | None = None


M = TypeVar("M", bound=BaseModel)


def encode(message: BaseModel) -> bytes:
    """The payload of a message: compact JSON."""
    return message.model_dump_json().encode()


def decode(model: type[M], payload: bytes) -> M:
    """The message in a payload, or Rejected. Never echoes the payload's values."""
    if len(payload) > LARGEST:
        raise Rejected(Reason.TOO_LARGE, f"{len(payload)} bytes, at most {LARGEST} are read")
    try:
        message = model.model_validate_json(payload)
    except ValidationError as error:
        raise _rejection(model, error) from None
    # The version has a default for whoever makes a message, not for whoever reads one.
    if "v" in model.model_fields and "v" not in message.model_fields_set:
        raise Rejected(Reason.UNKNOWN_VERSION, f"{model.__name__}: v: Field required")
    return message


def _rejection(model: type[BaseModel], error: ValidationError) -> Rejected:
    """Name the first offending field and the rule, without the value that broke it.

    A wrong version goes before all else: it explains the fields that are unknown as well.
    """
    errors = error.errors(include_input=False, include_context=False, include_url=False)
    first = next((each for each in errors if each["loc"][-1:] == ("v",)), errors[0])
    # Names of unknown fields are the sender's: only such as could be ours are repeated.
    where = ".".join(part if LEVEL.fullmatch(part) else "…" for part in way(first["loc"])) or "the message"
    reason = Reason.UNKNOWN_VERSION if first["loc"][-1:] == ("v",) else Reason.MALFORMED
    what = "unknown kind" if first["type"] == "union_tag_invalid" else first["msg"]
    return Rejected(reason, f"{model.__name__}: {where}: {what}")


def canonical(message: BaseModel) -> bytes:
    """The one byte string that stands for a message when it is signed: sorted keys, no spaces, UTF-8."""
    return json.dumps(
        message.model_dump(mode="json"),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    ).encode()
