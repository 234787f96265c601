"""The settings of a device, written for it: trust, broker, and a source for every stream of the policy."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hushmq.broker.contract.policy_message import Bins, Policy, StreamPolicy, Threshold
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import BinaryThetaMessage
from hushmq.broker.provision.site_description import toml_value
from hushmq.broker.provision.site_folder import broker_section
from hushmq.setup.source_login import NO_LOGIN, SourceLogin

KINDS = "simulate, stdin, offer, file=PATH, serial=PORT or mqtt=URL/TOPIC"


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """Where the values of a stream come from, as `--source` says it."""

    kind: str
    where: str = ""
    json_path: str | None = None
    login: SourceLogin = NO_LOGIN

    @classmethod
    def parse(cls, text: str, json_path: str | None = None, login: SourceLogin = NO_LOGIN) -> SourceChoice:
        """Return the choice in `simulate`, `file=PATH` and so on; raise Problem for anything else."""
        kind, _, where = text.partition("=")
        needs = kind in {"file", "serial", "mqtt"}
        if kind not in {"simulate", "stdin", "offer", "file", "serial", "mqtt"} or needs != bool(where):
            raise Problem(f"--source: {text!r} is no source: write {KINDS}")
        if json_path is not None and kind not in {"stdin", "file", "serial", "mqtt"}:
            raise Problem(f"--json-path: values of {kind} are no JSON: leave it out")
        return cls(kind, where, json_path, login if kind == "mqtt" else NO_LOGIN)

    def settings(self, stream: StreamPolicy) -> dict[str, Any]:
        """Return the section of a stream's source."""
        if self.kind == "simulate":
            return _simulated(stream)
        found: dict[str, Any] = {"kind": self.kind}
        if self.kind == "mqtt":
            found |= self.login.topic(self.where)
        elif self.kind == "file":
            found["file"] = self.where
        elif self.kind == "serial":
            found["port"] = self.where
        if self.kind == "offer":
            return found
        if self.json_path is not None:
            return found | {"form": "json", "json_path": self.json_path}
        numbers = isinstance(stream.discretiser, Threshold | Bins)
        return found | {"form": "number" if numbers else "label"}


def _simulated(stream: StreamPolicy) -> dict[str, Any]:
    """A chain in the middle of the policy's floor, whose values the discretiser takes for its states."""
    seed = secrets.randbits(31)
    floor = stream.theta.floor
    if isinstance(floor, BinaryThetaMessage) and isinstance(stream.discretiser, Threshold):
        middle = {
            key: round((getattr(floor, key).low + getattr(floor, key).high) / 2, 6) for key in ("q", "r")
        }
        off = 2 * stream.discretiser.hysteresis + 1.0
        at = stream.discretiser.at
        return {"kind": "simulate", **middle, "seed": seed, "low": at - off, "high": at + off}
    return {
        "kind": "simulate-states",
        "transition": _middle(stream),
        "values": _values(stream),
        "seed": seed,
    }


def _middle(stream: StreamPolicy) -> list[list[float]]:
    """A transition matrix within the floor: every row between its bounds, summing to one."""
    floor = stream.theta.floor
    if isinstance(floor, BinaryThetaMessage):
        q, r = ((bound.low + bound.high) / 2 for bound in (floor.q, floor.r))
        return [[1 - q, q], [r, 1 - r]]
    rows = []
    for low, high in zip(*floor.chains.transition_bounds, strict=True):
        room = 1 - sum(low)
        spare = [above - below for below, above in zip(low, high, strict=True)]
        whole = sum(spare) or 1.0
        rows.append([below + room * extra / whole for below, extra in zip(low, spare, strict=True)])
    return rows


def _values(stream: StreamPolicy) -> list[float] | list[str]:
    match stream.discretiser:
        case Threshold(at=at, hysteresis=off):
            return [at - 2 * off - 1.0, at + 2 * off + 1.0]
        case Bins(edges=edges, hysteresis=off):
            middles = [(low + high) / 2 for low, high in pairwise(edges)]
            return [edges[0] - 2 * off - 1.0, *middles, edges[-1] + 2 * off + 1.0]
    return list(stream.states)


def sources_of(
    texts: Sequence[str], json_path: str | None, policy: Policy, login: SourceLogin = NO_LOGIN
) -> dict[str, SourceChoice]:
    """Return the source of each stream, from `[STREAM:]KIND[=WHERE]` texts; raise Problem where none is left.

    One without a stream is for all streams that have none of their own; without such a one, only the streams named run.
    """
    named: dict[str, SourceChoice] = {}
    common: SourceChoice | None = None
    for text in texts:
        stream, mark, rest = text.partition(":")
        if mark and "=" not in stream:
            if stream not in policy.streams:
                raise Problem(
                    f"--source: the policy has no stream {stream!r}; it has {', '.join(policy.streams)}"
                )
            named[stream] = SourceChoice.parse(rest, json_path, login)
        else:
            common = SourceChoice.parse(text, json_path, login)
    found = {name: named.get(name, common) for name in policy.streams}
    chosen = {name: source for name, source in found.items() if source is not None}
    if not chosen:
        raise Problem(f"--source: say where the values come from: {KINDS}")
    if login != NO_LOGIN and not any(source.kind == "mqtt" for source in chosen.values()):
        raise Problem("--source: a user, password or authority is for mqtt=URL/TOPIC only")
    if sum(source.kind == "stdin" for source in chosen.values()) > 1:
        raise Problem("--source: standard input has one reader: write --source STREAM:stdin for one stream")
    return chosen


def agent_settings(
    *,
    device: str,
    policy: Policy,
    urls: Sequence[str],
    files: Mapping[str, str],
    ops_keys: Sequence[str],
    calibrator_keys: Sequence[str],
    sources: Mapping[str, SourceChoice],
) -> str:
    """Return agent.toml; its paths are relative to the file, beside which the credentials are."""
    epsilon = max(max(one.epsilon.operator, one.epsilon.public) for one in policy.streams.values())
    lines = [
        f"# Settings of the device {device} (docs/agent-configuration.md). Paths are relative to this file.",
        f"device = {toml_value(device)}",
        f"cohort = {toml_value(policy.cohort)}",
        'folder = "data"',
        "",
        broker_section(urls, device, {name: name for name in files}),
        "[trust]",
        f"ops_keys = {toml_value(list(ops_keys))}",
        f"calibrator_keys = {toml_value(list(calibrator_keys))}",
        "# A policy that asks for more is refused.",
        f"epsilon_max = {epsilon!r}",
    ]
    for name, source in sources.items():
        section = source.settings(policy.streams[name])
        lines += [
            "",
            f"[streams.{name}.source]",
            *(f"{key} = {toml_value(value)}" for key, value in section.items()),
        ]
    return "\n".join(lines) + "\n"
