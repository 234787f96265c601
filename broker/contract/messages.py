"""One pydantic model per message of the wire contract. A message carries its version `v`; unknown fields are refused.

Within version 1, the meaning of a field, its unit and whether it is required never change. A new optional field
needs a new version, because readers refuse unknown fields: a device must not apply half of a setting that it does
not understand.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Annotated, Literal, Self, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from hushmq.broker.contract.message_base import Epsilon, Level, Message, NanoNats, Tick, Version, field_path
from hushmq.broker.contract.noise_message import NoiseMessage
from hushmq.broker.contract.packing import packed_size
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.theta_message import ThetaMessage
from hushmq.broker.contract.topics import LEVEL
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.window_method import Method

MAX_PAYLOAD_BYTES = 256 * 1024


class Threshold(Message):
    """State 1 for values at or above `at`, state 0 below; within `hysteresis` of `at` the previous state is kept."""

    kind: Literal["threshold"] = "threshold"
    at: float
    hysteresis: Annotated[float, Field(ge=0)] = 0.0


class Bins(Message):
    """State 0 below the first edge, state n from the n-th edge up to the next.

    Within `hysteresis` of an edge the previous state is kept.
    """

    kind: Literal["bins"] = "bins"
    edges: Annotated[tuple[float, ...], Field(min_length=1, max_length=255)]
    hysteresis: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if any(not low < high for low, high in pairwise(self.edges)):
            raise ValueError("edges must rise")
        return self


class Labels(Message):
    """A value is the name of its state, or one of `aliases`, which map further names to states."""

    kind: Literal["labels"] = "labels"
    aliases: dict[str, str] = Field(default={}, max_length=1024)


class Audiences(Message):
    """The budget ε of those who read the sanitized stream, and of those who read releases only."""

    operator: Epsilon
    public: Epsilon


class Window(Message):
    """A tumbling window: ticks n·length … (n+1)·length − 1 for every n."""

    ticks: Annotated[int, Field(ge=1, le=2**40)]
    scopes: Annotated[tuple[Literal["cohort", "device"], ...], Field(min_length=1, max_length=2)] = (
        "cohort",
    )
    """One histogram for the cohort, one for each device, or both; each is charged separately."""
    proper: bool = False
    """Whether frequencies are replaced by the nearest ones that are not negative and sum to one."""
    method: Method = "least-noise"
    """The theorem that determines the noise; by default the valid one that adds the least
    (pufferfish/window_method.py)."""

    @model_validator(mode="after")
    def _each_scope_once(self) -> Self:
        if len(set(self.scopes)) != len(self.scopes):
            raise ValueError("scopes must differ from each other")
        return self


class DeviceWindow(Message):
    """A tumbling window that the device itself counts and releases, with discrete Laplace noise of this scale.

    It tilts every tick by 1/scale (two states) or 2/scale (more than two) in both audiences' accounts.
    """

    ticks: Annotated[int, Field(ge=1, le=2**40)]
    scale: Annotated[float, Field(gt=0, le=1e12)]


class Assumption(Message):
    """Θ before any evidence (`start`), and the Θ that every learned Θ contains, whatever the evidence (`floor`)."""

    start: ThetaMessage
    floor: ThetaMessage

    @model_validator(mode="after")
    def _start_contains_floor(self) -> Self:
        if self.start.k != self.floor.k:
            raise ValueError("start and floor must be for the same number of states")
        if not self.start.contains(self.floor):
            raise ValueError("start must contain floor")
        return self


class StreamPolicy(Message):
    """The policy of one stream, decided by ops."""

    states: Annotated[tuple[str, ...], Field(min_length=2, max_length=256)]
    period_ms: Annotated[int, Field(ge=1, le=86_400_000)]
    discretiser: Annotated[Threshold | Bins | Labels, Field(discriminator="kind")]
    theta: Assumption
    adversary: Adversary = "informed"
    epsilon: Audiences
    windows: Annotated[dict[Level, Window], Field(max_length=16)]
    device_windows: dict[Level, DeviceWindow] = Field(default={}, max_length=16)
    learning: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The share of a window's public tilt that is charged for the statistics from which Θ is learned."""
    misfit: Literal["cover", "report"] = "cover"
    """Whether Θ also covers correlation over long lags that no fitted first-order chain has, or only reports it."""

    @property
    def counts_changed(self) -> int:
        """How many counts of a histogram one tick can change, each by one: of two states, one count fixes the other."""
        return 1 if len(self.states) == 2 else 2

    @property
    def device_window_tilt(self) -> float:
        """The tilt of one tick by all device windows together, in nats."""
        return sum(self.counts_changed / window.scale for window in self.device_windows.values())

    @model_validator(mode="after")
    def _window_names_differ(self) -> Self:
        if self.windows.keys() & self.device_windows.keys():
            raise ValueError("windows and device_windows must have different names")
        return self

    @model_validator(mode="after")
    def _theta_fits(self) -> Self:
        if self.theta.start.k != len(self.states):
            shape = "{q, r}" if len(self.states) == 2 else f"{{low, high}} with {len(self.states)} rows each"
            raise ValueError(f"theta must be {shape} for {len(self.states)} states")
        if len(self.states) > 2 and self.adversary != "prior":
            raise ValueError(
                f"adversary = {self.adversary!r} is supported for two states only: "
                'with more, write adversary = "prior"'
            )
        return self

    @model_validator(mode="after")
    def _methods_hold(self) -> Self:
        for name, window in self.windows.items():
            reason = self.theta.start.chains.method_error(window.method, self.adversary)
            if reason is not None:
                raise ValueError(f"windows.{name}.method: {reason}")
        return self

    @model_validator(mode="after")
    def _discretiser_fits(self) -> Self:
        if len(set(self.states)) != len(self.states):
            raise ValueError("states must have different names")
        if isinstance(self.discretiser, Threshold) and len(self.states) != 2:
            raise ValueError("discretiser: a threshold needs exactly two states")
        if isinstance(self.discretiser, Bins) and len(self.discretiser.edges) + 1 != len(self.states):
            raise ValueError("discretiser: bins need one state more than they have edges")
        if isinstance(self.discretiser, Labels) and not set(self.discretiser.aliases.values()) <= set(
            self.states
        ):
            raise ValueError("discretiser: aliases must map to states of this stream")
        return self


class Policy(Message):
    """`policy`, retained, signed by ops: the rules that every device of the cohort follows."""

    v: Literal[1] = 1
    version: Version
    cohort: Level
    streams: Annotated[dict[Level, StreamPolicy], Field(min_length=1, max_length=64)]


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

    version: int | None
    reason: Reason


class StreamStatus(Message):
    """One stream of one device, in ticks: sampled = counted + buffered + dropped."""

    noise: Version | None
    refused: Refusal | None = None
    sampled: Annotated[int, Field(ge=0)]
    buffered: Annotated[int, Field(ge=0)]
    dropped: Annotated[int, Field(ge=0)]


class Status(Message):
    """`status/<device>`, retained; also the last will, with `online` false and nothing else."""

    v: Literal[1] = 1
    online: bool
    policy: Version | None = None
    refused: Refusal | None = None
    streams: dict[Level, StreamStatus] = Field(default={})


class Release(Message):
    """`release/<stream>/<window>/<scope>`, retained: the noisy histogram of one closed window."""

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
    """For each state, a 95% confidence interval of its frequency."""
    scale: Annotated[float, Field(gt=0)]
    tilt: NanoNats
    loss: Annotated[float, Field(ge=0)]
    budget: Epsilon
    adversary: Adversary
    theta: ThetaMessage
    entry: Annotated[int, Field(ge=1)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.first > self.last:
            raise ValueError("first must not be above last")
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
    loss: Annotated[float, Field(ge=0)]
    left: float
    theta: ThetaMessage


class Misfit(Message):
    """The band of lags whose correlation exceeds that of the fitted chains most, and significantly."""

    first: Annotated[int, Field(ge=1)]
    last: Annotated[int, Field(ge=1)]
    seen: float
    fitted: float
    covered: bool
    """Whether Θ contains a chain with the correlation seen. A policy may ask that misfit is only reported."""


class LedgerState(Message):
    """`ledger/<stream>`, retained: both audiences' accounts.

    `head` is the digest of the last entry, which covers all entries before it. `seal` is the calibrator's signature
    over cohort, stream, entries and head; it reveals a database restored from an old backup
    (calibrator/ledger/high_water_mark.py).
    """

    v: Literal[1] = 1
    stream: Level
    adversary: Adversary
    entries: Annotated[int, Field(ge=0)]
    operator: Account
    public: Account
    late: Annotated[int, Field(ge=0)] = 0
    """Ticks that arrived after their window had closed: they are counted, but in no release."""
    stopped: str | None = None
    """Why the stream releases nothing further; None while it releases."""
    misfit: Misfit | None = None
    """How far the data deviates from the chains that the guarantee assumes; None while there is no evidence of it."""
    head: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    seal: Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{86}==$")] | None = None


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


def canonical(message: BaseModel) -> bytes:
    """Return the bytes of a message that are signed: JSON with sorted keys, without spaces, in UTF-8."""
    return json.dumps(
        message.model_dump(mode="json"),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    ).encode()
