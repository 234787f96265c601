"""An export as it is read: policies, settings, and for each stream its entries, results and stated losses.

Every field must be known here: one that is not may change what is promised, so its owner is reported as not checked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from hushmq.verify.outward import DOWN, UP, ZERO, Interval, largest

Tree = dict[str, Any]

KNOWN = {
    "export": {"export", "cohort", "at", "keys", "policies", "settings", "streams", "archives", "seal"},
    "archive": {"number", "releases", "digest", "seal"},
    "archive file": {"archive", "cohort", "number", "before", "at", "releases"},
    "policy": {"v", "version", "cohort", "streams", "groups", "first_devices"},
    "stream policy": {
        *("states", "period_ms", "discretiser", "theta", "adversary", "epsilon", "windows", "device_windows"),
        *("learning", "misfit", "stand_in", "fill_s", "outside_theta"),
        *("independent", "coupling", "share", "source", "after_contradiction", "epoch", "stride", "queries"),
    },
    "setting": {"v", "version", "policy", "cohort", "stream", "device", "theta", "noise"},
    "stream": {
        "entries",
        "releases",
        "extents",
        "epochs",
        "head",
        "seal",
        "state",
        "ended",
        "devices",
        "reconciled",
    },
    "reconciled": {"entry", "after", "entries", "statement"},
    "statement": {"v", "cohort", "streams"},
    "lost stretch": {
        *("entries", "head", "after", "after_head", "first", "last", "public", "operator", "settings"),
        "policies",
    },
    "epoch": {
        *("stream", "number", "first", "reason", "policy", "ops", "meaning", "settings", "ended_theta"),
        "entry",
    },
    "ended epoch": {"number", "first", "last", "reason", "operator", "public"},
    "entry": {
        *("id", "stream", "window", "scope", "audience", "first", "last", "tilt", "noise", "noise_digest"),
        *("why", "at", "digest"),
    },
    "release": {
        *("v", "stream", "window", "scope", "first", "last", "devices", "ticks", "states", "counts"),
        *("frequencies", "standard_errors", "intervals", "scale", "tilt", "loss", "budget", "adversary"),
        *("theta", "entry", "account", "stride", "unbiased", "smoothed", "smoothed_intervals"),
        *("period_ms", "start", "end", "bias", "answers"),
    },
    "state": {
        *("v", "stream", "adversary", "entries", "operator", "public", "late", "stopped", "misfit", "head"),
        *("seal", "account", "epoch", "ended"),
    },
    "account": {"budget", "loss", "left", "theta", "undecided"},
}
MOST_LEARNED_STATES = 8
"""With more states nothing is spent on learning."""


def unknown(kind: str, tree: Tree) -> list[str]:
    """The fields of something that are not known here."""
    return [
        f"the {kind} has a field {name!r} that this checker does not know"
        for name in sorted(tree.keys() - KNOWN[kind])
    ]


@dataclass(frozen=True, slots=True)
class SignedPolicy:
    """A signed policy, and when a newer one took its place (None: not yet)."""

    envelope: Tree
    until: str | None

    @property
    def message(self) -> Tree:
        message: Tree = self.envelope["message"]
        return message

    @property
    def version(self) -> int:
        return int(self.message["version"])

    def stream(self, name: str) -> StreamTerms | None:
        tree = self.message["streams"].get(name)
        return None if tree is None else StreamTerms(tree, self.version, name, self.message)


@dataclass(frozen=True, slots=True)
class StreamTerms:
    """What a policy says about one stream."""

    tree: Tree
    version: int
    name: str
    policy: Tree
    """The whole policy: streams that are not independent, and devices of a group, share an account."""

    @property
    def members(self) -> tuple[str, ...]:
        """The streams of its account (docs/theory-world.md, W4)."""
        streams = self.policy["streams"]
        joined = tuple(name for name, one in streams.items() if _joined(one))
        return joined if _joined(self.tree) else (self.name,)

    @property
    def stride(self) -> int:
        """Of so many ticks one is published."""
        return int(self.tree.get("stride", 1))

    def group(self, device: str | None) -> tuple[str, ...]:
        """The devices that share the account of one, itself among them; for None, as many as the largest group has."""
        groups = [tuple(one["devices"]) for one in self.policy.get("groups", {}).values()]
        if device is None:
            return max(groups, key=len, default=("",))
        return next((group for group in groups if device in group), (device,))

    def share(self, device: str | None) -> Fraction:
        """The part of the account's tilt that this stream of one device may use (Theorem 21)."""
        streams = self.policy["streams"]
        given = {
            name: Fraction(streams[name]["share"])
            for name in self.members
            if streams[name].get("share") is not None
        }
        mine = given.get(self.name)
        if mine is None:
            mine = (1 - sum(given.values(), Fraction(0))) / (len(self.members) - len(given))
        return mine / len(self.group(device))

    def epsilon(self, audience: str) -> float:
        """The budget of its account: the least of all streams that are not independent, over their couplings."""
        if self.tree.get("independent", False):
            return float(self.tree["epsilon"][audience])
        dependent = [one for one in self.policy["streams"].values() if not one.get("independent", False)]
        return min(float(one["epsilon"][audience]) for one in dependent) / _coupled_parts(dependent)

    @property
    def floors(self) -> list[Tree]:
        """What every Θ that prices the account contains."""
        return [self.policy["streams"][name]["theta"]["floor"] for name in self.members]

    @property
    def adversary(self) -> str:
        return str(self.tree.get("adversary", "informed"))

    @property
    def counts_changed(self) -> int:
        """How many counts of a histogram one state can change by one: of two, one fixes the other."""
        return 1 if len(self.tree["states"]) == 2 else 2

    @property
    def device_tilt(self) -> Interval:
        """What the windows that devices release cost at every tick: changed counts over scale, added up."""
        total = sum(
            (
                Fraction(self.counts_changed) / Fraction(one["scale"])
                for one in self.tree.get("device_windows", {}).values()
            ),
            Fraction(0),
        )
        return fraction(total)

    @property
    def release_share(self) -> Fraction:
        """The share of an entry's tilt that is for its release, where it also pays for statistics."""
        states = len(self.tree["states"])
        learned = states <= (MOST_LEARNED_STATES if self.stride == 1 else 2)
        learning = Fraction(self.tree.get("learning", 0.5)) if learned else Fraction(0)
        each = (1 - learning) / sum(
            len(one.get("scopes", ["cohort"])) for one in self.tree["windows"].values()
        )
        return each / (each + learning)


def _coupled_parts(dependent: Sequence[Tree]) -> float:
    """1 + Σ ρ, for the account with the largest sum; streams that are joined are one (Theorem 23)."""
    couplings = [float(one["coupling"]) for one in dependent if one.get("coupling") is not None]
    if any(_joined(one) for one in dependent):
        couplings.append(0.0)
    sums = [
        1.0 + sum(max(mine, other) for place, other in enumerate(couplings) if place != number)
        for number, mine in enumerate(couplings)
    ]
    return max(sums)


def _joined(stream: Tree) -> bool:
    return not stream.get("independent", False) and stream.get("coupling") is None


@dataclass(frozen=True, slots=True)
class SignedSetting:
    """A signed noise setting, and the first tick that can carry it."""

    envelope: Tree
    stream: str
    issued: int

    @property
    def message(self) -> Tree:
        message: Tree = self.envelope["message"]
        return message

    @property
    def version(self) -> int:
        return int(self.message["version"])

    @property
    def device(self) -> str | None:
        device: str | None = self.message.get("device")
        return device


@dataclass(frozen=True, slots=True)
class Export:
    """The whole export."""

    tree: Tree
    policies: list[SignedPolicy]
    settings: list[SignedSetting]

    @property
    def cohort(self) -> str:
        return str(self.tree["cohort"])

    @property
    def streams(self) -> dict[str, Tree]:
        streams: dict[str, Tree] = self.tree["streams"]
        return streams

    def settings_of(self, stream: str) -> dict[int, SignedSetting]:
        return {one.version: one for one in self.settings if one.stream == stream}

    def policies_of(self, stream: str, by: str | None = None) -> Iterator[StreamTerms]:
        """What all policies say about a stream: those that were followed before a time, with certainty."""
        since = ""
        for policy in self.policies:
            found = policy.stream(stream)
            if found is not None and (by is None or since < by):
                yield found
            since = policy.until or since

    def device_tilt(self, stream: str, by: str | None = None) -> Interval:
        """The most that windows which devices release have cost at every tick, under any policy so far."""
        return largest([ZERO, *(one.device_tilt for one in self.policies_of(stream, by))])

    def in_force(self, stream: str, at: str) -> list[StreamTerms]:
        """What the policy in force at a time says about a stream; two where it changed within that second."""
        found, since = [], ""
        for policy in self.policies:
            part = policy.stream(stream)
            if part is not None and since <= at and (policy.until is None or at <= policy.until):
                found.append(part)
            since = policy.until or since
        return found


def fraction(value: Fraction) -> Interval:
    """A rational number as an interval."""
    over, under = Decimal(value.numerator), Decimal(value.denominator)
    return Interval(DOWN.divide(over, under), UP.divide(over, under))


def read_export(path: Path) -> Export:
    """Read an export; ValueError that says what is wrong with it."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError("it is not JSON: make an export with hushmq ledger export --format bundle") from None
    if not isinstance(tree, dict) or tree.get("export") != 1:
        raise ValueError("it is no export of format 1: make one with hushmq ledger export --format bundle")
    try:
        return Export(
            tree,
            [SignedPolicy(one["signed"], one["until"]) for one in tree["policies"]],
            [SignedSetting(one["signed"], one["stream"], one["issued"]) for one in tree["settings"]],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks {error}, or has it in another form") from None


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")
