"""The policy of a cohort on the wire: what ops decide for each stream. One pydantic model for each of its parts.

Versions and unknown fields: as in broker/contract/messages.py.
"""

from __future__ import annotations

import json
import math
from hashlib import blake2b
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hushmq.broker.contract.message_base import (
    Epsilon,
    Level,
    Magnitude,
    Message,
    NoiseScale,
    Number,
    Version,
)
from hushmq.broker.contract.query_message import Query, query_error, transition_share
from hushmq.broker.contract.theta_message import BinaryThetaMessage, RegimeThetaMessage, ThetaMessage
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.categorical.informed_side import MOST_STATES
from hushmq.pufferfish.categorical.strided_states import MOST_STATES as MOST_STRIDED_STATES
from hushmq.pufferfish.regimes.regime_theta import INFORMED_ERROR
from hushmq.pufferfish.undecided import spread_error
from hushmq.pufferfish.window_method import Method, stride_error

MOST_LEARNED_STATES = 8
"""With more states Θ is not learned: charged statistics would say too little about k² transitions."""

LONGEST_STRIDE = 4096
"""Ticks of a stride at most: a device holds the values of one until it ends."""

LONGEST_FILL_S = 7 * 86_400
"""The longest absence that a policy may have filled: a week."""


LONGEST_WINDOW_S = 10 * 366 * 86_400
"""The longest window that a policy may have: ten years."""

StateName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,128}$")]
"""A name that people read: not empty, one line."""


class Threshold(Message):
    """State 1 for values at or above `at`, state 0 below; within `hysteresis` of `at` the previous state is kept."""

    kind: Literal["threshold"] = "threshold"
    at: Number
    """Values at or above it are state 1."""
    hysteresis: Magnitude = 0.0
    """How far beyond `at` a value must be for the state to change."""


class Bins(Message):
    """State 0 below the first edge, state n from the n-th edge up to the next.

    Within `hysteresis` of an edge the previous state is kept.
    """

    kind: Literal["bins"] = "bins"
    edges: Annotated[tuple[Number, ...], Field(min_length=1, max_length=255)]
    """Rising, one fewer than there are states."""
    hysteresis: Magnitude = 0.0
    """How far beyond an edge a value must be for the state to change."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if any(not low < high for low, high in pairwise(self.edges)):
            raise ValueError("edges must rise")
        return self


class Labels(Message):
    """A value is the name of its state, or one of `aliases`, which map further names to states."""

    kind: Literal["labels"] = "labels"
    aliases: dict[str, str] = Field(default={}, max_length=1024)
    """Further names of states, such as `{ ON = "occupied" }`."""


class Audiences(Message):
    """The budget ε of those who read the sanitized stream, and of those who read releases only.

    It bounds how far all that they ever see changes the log-odds of any two states at any one instant, for every chain
    in Θ and against the policy's adversary. Every instant has its own: losses do not add up over windows. Streams that
    share an account keep one ε together.
    """

    operator: Epsilon
    """Of those who read the sanitized stream, the calibrator among them."""
    public: Epsilon
    """Of those who read releases only. All windows of the stream, and learning, share it."""


class Window(Message):
    """A tumbling window: ticks n·length … (n+1)·length − 1 for every n."""

    ticks: Annotated[int, Field(ge=1, le=2**40)]
    """Its length; times `period_ms` at most ten years."""
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
    """Its length; times `period_ms` at most ten years."""
    scale: NoiseScale
    """The noise on each count."""


class Assumption(Message):
    """Θ before any evidence (`start`), and the Θ that every learned Θ contains, whatever the evidence (`floor`)."""

    start: ThetaMessage
    """Θ before any evidence. It must contain `floor`."""
    floor: ThetaMessage
    """What Θ always contains. Losses keep to ε for every chain in it, whatever was learned; write none
    that is narrower than what you would defend with no evidence at all."""

    @model_validator(mode="after")
    def _start_contains_floor(self) -> Self:
        if self.start.k != self.floor.k:
            raise ValueError("start and floor must be for the same number of states")
        if isinstance(self.start, RegimeThetaMessage) != isinstance(self.floor, RegimeThetaMessage):
            raise ValueError("start and floor must both be {regimes}, or neither")
        if not self.start.contains(self.floor):
            raise ValueError("start must contain floor")
        return self


class StreamPolicy(Message):
    """The policy of one stream, decided by ops."""

    states: Annotated[tuple[StateName, ...], Field(min_length=2, max_length=256)]
    """Their names, in the order of releases. The number of states of a stream never changes."""
    period_ms: Annotated[int, Field(ge=1, le=86_400_000)]
    """The length of a tick in milliseconds: one state is recorded for each. It never changes."""
    discretiser: Annotated[Threshold | Bins | Labels, Field(discriminator="kind")]
    stride: Annotated[int, Field(ge=1, le=LONGEST_STRIDE)] = 1
    """Of so many ticks one is published, and what is published is counted in strides; it never changes. `"auto"` in a
    file, and the default there, is the one that `hushmq push` finds best for the windows of a new stream. Above 1 it is
    for up to 12 states, with Θ as `{ regimes }`, as `{ q, r }` of which the highest add up to at most 1, or as
    `{ low, high }`, of which nothing is learned then; for windows whose `ticks` are multiples of it, without
    `device_windows` and `groups`, and with an account that no other stream shares."""
    theta: Assumption
    adversary: Adversary = "informed"
    """Who the losses are computed against: `prior` knows the chain; `informed` also knows the states at any other
    instants; `undecided` knows Θ and not the chain. With more than two states it must be given."""
    epsilon: Audiences
    windows: Annotated[dict[Level, Window], Field(max_length=16)]
    device_windows: dict[Level, DeviceWindow] = Field(default={}, max_length=16)
    queries: dict[Level, Query] = Field(default={}, max_length=64)
    learning: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The share of a window's public tilt that is charged for the statistics from which Θ is learned."""
    misfit: Literal["cover", "report"] = "cover"
    """Whether Θ also covers correlation over long lags that no fitted first-order chain has, or only reports it."""
    outside_theta: Literal["warn", "stop", "stand-in"] = "warn"
    """What a device does whose own states prove not to behave like Θ: a local warning only; publish nothing from the
    end of the hour on; or publish the stand-in instead of its states, under the same noise."""
    stand_in: str | None = None
    """The state that is perturbed where there is no value, or one that matches no state; absent: the first state."""
    fill_s: Annotated[int, Field(ge=0, le=LONGEST_FILL_S)] = 3600
    """The longest absence, in seconds, whose ticks are published afterwards with the stand-in; 0: none is."""
    independent: bool = False
    """Whether its states say nothing about those of the other streams; if not, it shares one account with them."""
    coupling: Annotated[float, Field(gt=0, le=1)] | None = None
    """LCM's dependence coefficient between this stream and the others, for one that cannot share their account."""
    share: Annotated[float, Field(gt=0, le=1)] | None = None
    """The part of its account's tilt that this stream may use; by default an equal part of what the others leave."""
    source: Level | None = None
    """What the values come from, such as "ring-4" or "pir". Part of the states' meaning: change it with the sensor."""
    after_contradiction: Literal["continue", "stop"] = "continue"
    """What follows when evidence contradicts Θ and what was released exceeds ε under the wider one: a new epoch under
    that, or nothing until ops raise `epoch`."""
    epoch: Annotated[int, Field(ge=1, le=2**31)] = 1
    """Raised by ops to begin a new epoch, in which everything about the chains is learned anew; it only rises."""

    @property
    def meaning(self) -> str:
        """A fingerprint of what a state at a tick means: beliefs and accounts belong to one of them."""
        parts = [self.states, self.discretiser.model_dump(), self.stand_in_state, self.period_ms, self.source]
        return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()

    @property
    def stand_in_state(self) -> int:
        """The number of the stand-in state."""
        return 0 if self.stand_in is None else self.states.index(self.stand_in)

    @property
    def stride_ms(self) -> int:
        """How long a stride lasts: batches, windows, releases and accounts number strides, which may be of one tick."""
        return self.period_ms * self.stride

    def strides_of(self, window: Window) -> int:
        """How many strides a window has: every device publishes so many states in it."""
        return window.ticks // self.stride

    @property
    def fill_ticks(self) -> int:
        """The largest number of missed ticks that are filled; of missed strides, if it has a stride."""
        return self.fill_s * 1000 // self.stride_ms

    @property
    def learned_share(self) -> float:
        """The share of a window's tilt that is spent on learning: nothing where there are too many states to learn.

        With a stride two states are learned: what is published of more tells of the chain of so many steps alone.
        """
        return self.learning if len(self.states) <= (MOST_LEARNED_STATES if self.stride == 1 else 2) else 0.0

    @property
    def joined(self) -> bool:
        """Whether it shares an account with the other streams that are neither independent nor coupled."""
        return not self.independent and self.coupling is None

    @property
    def tilt_share(self) -> float:
        """The part of its account's tilt that this stream of one device may use.

        It is right in what `priced_streams` (broker/contract/account_share.py) returns, where every share is given.
        """
        return 1.0 if self.share is None else self.share

    @property
    def counts_changed(self) -> int:
        """How many counts of a histogram one tick can change, each by one: of two states, one count fixes the other."""
        return 1 if len(self.states) == 2 else 2

    def histogram_share(self, window: str) -> float:
        """The part of a window's tilt that its histogram has: what queries leave of it."""
        return 1.0 - transition_share(self.queries, window)

    @property
    def device_window_tilt(self) -> float:
        """The tilt of one tick by all device windows together, in nats."""
        return sum(self.counts_changed / window.scale for window in self.device_windows.values())

    @model_validator(mode="after")
    def _one_relation_to_others(self) -> Self:
        if self.independent and self.coupling is not None:
            raise ValueError("an independent stream has no coupling: remove one of the two")
        return self

    @model_validator(mode="after")
    def _windows_end(self) -> Self:
        lengths = {name: one.ticks for name, one in self.windows.items()}
        lengths |= {name: one.ticks for name, one in self.device_windows.items()}
        for name, ticks in lengths.items():
            if ticks * self.period_ms > LONGEST_WINDOW_S * 1000:
                raise ValueError(f"windows.{name}.ticks: {ticks} ticks are longer than ten years")
        return self

    @model_validator(mode="after")
    def _window_names_differ(self) -> Self:
        if self.windows.keys() & self.device_windows.keys():
            raise ValueError("windows and device_windows must have different names")
        return self

    @model_validator(mode="after")
    def _theta_fits(self) -> Self:
        if self.theta.start.k != len(self.states):
            shape = (
                "{q, r} or {regimes}"
                if len(self.states) == 2
                else f"{{low, high}} with {len(self.states)} rows each"
            )
            raise ValueError(f"theta must be {shape} for {len(self.states)} states")
        if isinstance(self.theta.start, RegimeThetaMessage) and self.adversary == "informed":
            raise ValueError(f"adversary: {INFORMED_ERROR}")
        if len(self.states) > 2 and "adversary" not in self.model_fields_set:
            raise ValueError(
                'with more than two states, write adversary = "prior", "informed" or "undecided"'
            )
        if len(self.states) > MOST_STATES and self.adversary == "informed":
            raise ValueError(
                f'adversary = "informed" is supported for up to {MOST_STATES} states: '
                'with more, write adversary = "prior" or "undecided"'
            )
        return self

    @model_validator(mode="after")
    def _stand_in_is_a_state(self) -> Self:
        if self.stand_in is not None and self.stand_in not in self.states:
            raise ValueError("stand_in must be one of states")
        return self

    @model_validator(mode="after")
    def _spread_leaves_room(self) -> Self:
        """Before anything is published Θ is `start`: where its odds spread alone exceeds ε, nothing ever can be."""
        if self.adversary == "undecided":
            audiences = ("operator", "public") if self.windows or self.device_windows else ("operator",)
            for audience in audiences:
                reason = spread_error(self.theta.start.chains, getattr(self.epsilon, audience))
                if reason is not None:
                    raise ValueError(f"adversary: epsilon.{audience}: {reason}")
        return self

    @model_validator(mode="after")
    def _methods_hold(self) -> Self:
        for name, window in self.windows.items():
            reason = self.theta.start.chains.method_error(window.method, self.adversary)
            if reason is None and self.stride > 1:
                reason = stride_error(window.method)
            if reason is not None:
                raise ValueError(f"windows.{name}.method: {reason}")
        return self

    @model_validator(mode="after")
    def _stride_fits(self) -> Self:
        """What is proved for one of several ticks: of two states intervals of chains that rather stay, of more all."""
        if self.stride == 1:
            return self
        start = self.theta.start
        if len(self.states) > MOST_STRIDED_STATES:
            raise ValueError(f"stride: above 1 it is for up to {MOST_STRIDED_STATES} states")
        if isinstance(start, BinaryThetaMessage) and start.q.high + start.r.high > 1:
            raise ValueError(
                "stride: above 1 it needs a theta.start whose highest q and r add up to at most 1"
            )
        if self.device_windows:
            raise ValueError("stride: above 1 there are no device_windows: give them a stream of their own")
        for name, window in self.windows.items():
            if window.ticks % self.stride:
                raise ValueError(
                    f"windows.{name}.ticks: {window.ticks} is no multiple of stride, which is {self.stride}"
                )
        return self

    @model_validator(mode="after")
    def _queries_fit(self) -> Self:
        reason = query_error(
            self.queries,
            windows={name: self.strides_of(one) for name, one in self.windows.items()},
            states=len(self.states),
            regimes=isinstance(self.theta.start, RegimeThetaMessage),
        )
        if reason is not None:
            raise ValueError(reason)
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


class Group(Message):
    """Devices of one person or room: what they publish is about the same states, so it is one account."""

    devices: Annotated[tuple[Level, ...], Field(min_length=2, max_length=64)]
    """Their names. A device is in at most one group."""


class Policy(Message):
    """`policy`, retained, signed by ops: the rules that every device of the cohort follows."""

    v: Literal[1, 2] = 2
    """The version of the format. Version 2 has all fields; a policy of version 1, signed before they existed, has their
    defaults."""
    version: Version
    """It only rises. Omit it in the file: `hushmq push` takes the next one."""
    cohort: Level
    """The cohort whose devices follow the policy, as in their topics."""
    streams: Annotated[dict[Level, StreamPolicy], Field(min_length=1, max_length=64)]
    groups: dict[Level, Group] = Field(default={}, max_length=1024)
    """Devices whose streams share an account. A device in no group is a group of its own."""
    first_devices: Annotated[tuple[Level, ...], Field(max_length=1024)] = ()
    """Where some are named, only they apply the policy: all others check it, and go on with what they follow until a
    policy comes that names none. `hushmq push --first` writes it."""

    @model_validator(mode="after")
    def _groups_apply_it_together(self) -> Self:
        first = set(self.first_devices)
        for name, group in self.groups.items():
            if first & set(group.devices) and not first >= set(group.devices):
                raise ValueError(
                    f"first_devices: the devices of groups.{name} share an account: name all of them or none"
                )
        return self

    @model_validator(mode="after")
    def _each_device_in_one_group(self) -> Self:
        group_of: dict[str, str] = {}
        for name, group in self.groups.items():
            for device in group.devices:
                if device in group_of:
                    raise ValueError(
                        f"groups: {device} is in {group_of[device]} and in {name}: a device is in one group, once"
                        if group_of[device] != name
                        else f"groups.{name}: {device} is named twice"
                    )
                group_of[device] = name
        return self

    @model_validator(mode="after")
    def _joined_streams_fit(self) -> Self:
        joined = {name: one for name, one in self.streams.items() if one.joined}
        for name, one in joined.items():
            first, other = next(iter(joined.items()))
            for what, mine, theirs in (
                ("states", len(one.states), len(other.states)),
                ("period_ms", one.period_ms, other.period_ms),
                ("adversary", one.adversary, other.adversary),
            ):
                if mine != theirs:
                    raise ValueError(
                        f"streams: {first} and {name} are one account, since neither is independent, but {what} is "
                        f"{theirs} and {mine}: make them equal, or write independent = true in a stream that does not "
                        "depend on the others, or its coupling to them"
                    )
        strided = [name for name, one in self.streams.items() if one.stride > 1]
        if strided and self.groups:
            raise ValueError(f"streams.{strided[0]}.stride: above 1 it is not for policies with groups")
        if len(joined) > 1 and any(name in joined for name in strided):
            raise ValueError(
                f"streams.{strided[0]}.stride: above 1 a stream has an account of its own: write independent = true "
                "in a stream that does not depend on the others, or its coupling to them"
            )
        given = math.fsum(one.share for one in joined.values() if one.share is not None)
        if given > 1.0 + 1e-9 or (given >= 1.0 and any(one.share is None for one in joined.values())):
            raise ValueError(
                f"streams: the shares given add up to {given:g}: together at most 1, and something left for the others"
            )
        return self
