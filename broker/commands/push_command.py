"""`hushmq push`: check a policy file, say what will change and what it means, sign, publish, follow the roll-out."""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hushmq.broker.commands.client_options import add_broker, endpoints
from hushmq.broker.commands.policy_forecast import Forecast, forecast
from hushmq.broker.commands.rollout import FINAL, Heard, Progress, Watcher, settled
from hushmq.broker.contract.messages import LARGEST, LedgerState, Policy, StreamPolicy, encode
from hushmq.broker.contract.noise_message import Flips, kept
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import BinaryTheta, IntervalTheta, theta_of
from hushmq.broker.service.settings_file import first_error
from hushmq.pufferfish.binary.stream_loss import Box, Noise
from hushmq.pufferfish.categorical.transition_intervals import Class

BACK_S = 5.0
"""How long what was published may take to come back."""
ROOM = 4096
"""Bytes of a message besides Θ."""
CLEAR_LINE = "\r\x1b[K"
SUMMARY = "check, sign and publish a policy, and follow its roll-out"
EXAMPLES = """A policy file is TOML or JSON with the fields of the policy message; `version` may be left out, then the
next one is taken. Exit code 0: every device online has applied it; 1: some refused it, or stayed silent.

examples:
  hushmq push policy.toml --key ops.key --broker mqtts://broker.lan --username ops --password-file ops.password
  hushmq push policy.toml --key ops.key --broker mqtt://127.0.0.1 --dry-run
  hushmq push policy.json --key ops.key --broker mqtt://127.0.0.1 --yes --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("policy", type=Path, metavar="POLICY", help="the policy file, .toml or .json")
    parser.add_argument("--key", type=Path, required=True, metavar="FILE", help="ops' private key")
    add_broker(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would change, publish nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end and nothing else")
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="S", help="follow the roll-out so long; default: 60"
    )


def run(args: argparse.Namespace) -> int:
    if not 0 <= args.timeout <= 86_400:
        raise Problem(f"--timeout: {args.timeout:g} is out of range: 0 to 86400 seconds")
    tree = read_policy(args.policy)
    key = PrivateKey.load(args.key)
    _check(tree, args.policy, version=tree.get("version", 1))
    if not (args.dry_run or args.yes or sys.stdin.isatty()):
        raise Problem("--yes: nobody can be asked here, so it has to be given (or --dry-run)")
    watcher = Watcher(endpoints(args), str(tree.get("cohort", "")))
    try:
        watcher.open()
        policy = _versioned(tree, args.policy, watcher.heard)
        payload = encode(key.sign(policy))
        if len(payload) > LARGEST:
            raise Problem(
                f"{args.policy}: {len(payload)} bytes as a message, and devices read at most {LARGEST}"
            )
        plan = _plan(policy, watcher.heard)
        if not args.json:
            print("\n".join(_words(policy, watcher.heard, plan)))
        if args.dry_run or not (args.yes or _agreed()):
            _answer(args, policy, plan, watcher.heard, {}, published=False)
            return 0 if args.dry_run else 1
        watcher.publish(policy, payload, timeout=BACK_S)
        found = _follow(watcher, policy, timeout=args.timeout, quiet=args.json)
    finally:
        watcher.close()
    _answer(args, policy, plan, watcher.heard, found, published=True)
    return 0 if settled(found) and all(one.state != "refused" for one in found.values()) else 1


def read_policy(path: Path) -> dict[str, Any]:
    """The fields in a policy file."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{path}: not UTF-8 text") from None
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise Problem(f"{path}: not {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(tree, dict):
        raise Problem(f"{path}: a policy is an object with cohort and streams")
    return tree


def _check(tree: dict[str, Any], path: Path, *, version: Any) -> Policy:
    """The policy in the fields, read as strictly as a device reads it."""
    try:
        return Policy.model_validate_json(json.dumps(tree | {"version": version}, allow_nan=False))
    except ValidationError as error:
        raise Problem(f"{path}: {first_error(error)}") from None
    except (TypeError, ValueError) as error:
        raise Problem(f"{path}: {error}") from None


def _versioned(tree: dict[str, Any], path: Path, heard: Heard) -> Policy:
    present = heard.policy.version if heard.policy else 0
    policy = _check(tree, path, version=tree.get("version", present + 1))
    if heard.policy is not None and policy.version <= present:
        raise Problem(
            f"{path}: version: {policy.version} is not above {present}, which is in force: leave it out"
        )
    for name, stream in policy.streams.items():
        old = heard.policy.streams.get(name) if heard.policy else None
        if old is not None and old.period_ms != stream.period_ms:
            raise Problem(
                f"{path}: streams.{name}.period_ms: {old.period_ms} is in use and never changes: "
                "give the stream a new name"
            )
        if old is not None and len(old.states) != len(stream.states):
            raise Problem(
                f"{path}: streams.{name}.states: {len(old.states)} are in use, and how many never changes: "
                "give the stream a new name"
            )
        # The largest message about a stream: both accounts with Θ, the reversal written out.
        told = 2 * len(theta_of(stream.theta.start.chains).model_dump_json())
        if told > LARGEST - ROOM:
            raise Problem(
                f"{path}: streams.{name}.states: Θ of {len(stream.states)} states does not fit into messages of "
                f"{LARGEST} bytes: bounds with fewer digits, or fewer states"
            )
    return policy


Plan = dict[str, tuple[Forecast | None, Forecast]]


def _plan(policy: Policy, heard: Heard) -> Plan:
    """For each stream what is, if anything, and what will be."""
    plan: Plan = {}
    for name, stream in policy.streams.items():
        devices = sum(name in status.streams for status in heard.statuses.values())
        old = heard.policy.streams.get(name) if heard.policy else None
        setting = heard.settings.get(name)
        before = None
        if old is not None and setting is not None:
            noise = setting.noise.noise if isinstance(setting.noise, Flips) else setting.noise.emission
            before = forecast(old, setting.theta.chains, devices=devices, noise=noise)
        same = setting is not None and old is not None and old.theta.start == stream.theta.start
        theta = _hull(
            setting.theta if setting is not None and same else stream.theta.start, stream.theta.floor
        )
        plan[name] = before, forecast(stream, theta, devices=devices)
    return plan


def _hull(believed: BinaryTheta | IntervalTheta, floor: BinaryTheta | IntervalTheta) -> Box | Class:
    """Θ right after the change: what is believed if the start is the same, never narrower than the floor."""
    if isinstance(believed, BinaryTheta) and isinstance(floor, BinaryTheta):
        return believed.chains.hull(floor.chains)
    if isinstance(believed, IntervalTheta) and isinstance(floor, IntervalTheta):
        return believed.chains.hull(floor.chains)
    raise Problem("the setting in force is for another number of states than the policy in force")


def _words(policy: Policy, heard: Heard, plan: Plan) -> list[str]:
    present = heard.policy.version if heard.policy else None
    lines = [f"cohort {policy.cohort}: policy {present or 'none'} → {policy.version}"]
    gone = sorted(set(heard.policy.streams if heard.policy else ()) - set(policy.streams))
    lines += [f"  {name}: goes away; its devices fall silent on it" for name in gone]
    for name, (before, after) in plan.items():
        old = heard.policy.streams.get(name) if heard.policy else None
        changes = _changes(old, policy.streams[name])
        lines.append(f"  {name}: {'new' if old is None else ', '.join(changes) or 'unchanged'}")
        lines += [
            f"    {'chains assumed':<28}{_chains(before):>18} → {_chains(after)}",
            f"    {'noise on the device':<28}{_noise(before):>18} → {_noise(after)}",
            f"    {'loss to operators':<28}{_loss(before, 'operator'):>18} → {after.operator:.4f}",
            f"    {'loss to the public':<28}{_loss(before, 'public'):>18} → {after.public:.4f}",
            f"    {'error of an hourly histogram':<28}{_error(before):>18} → ±{after.hourly_error:.4f}",
        ]
        if policy.streams[name].adversary == "prior":
            lines.append("    NOTE: both losses are to someone who knows no state at any other instant")
        ledger = heard.ledgers.get(name)
        if ledger is not None:
            for words, audience, was, will in _left(ledger, policy.streams[name]):
                lines.append(f"    {words:<28}{was:>18.4f} → {will:.4f}")
                if will < 0:
                    lines.append(
                        f"    WARNING: {-will:.4f} more than the new ε of the {audience} is spent already: "
                        "releases will stop"
                    )
        if old is not None and policy.streams[name].epsilon.operator > old.epsilon.operator:
            lines.append(
                "    NOTE: ε rises: the last ticks made under the old policy are also seen through the new ones"
            )
        lines += [
            f"    window {share.window} ({share.ticks} ticks) for the {share.scope}: "
            f"tilt {share.tilt:.5f}, noise of scale {share.scale:.1f}"
            for share in after.shares
        ]
        if len(after.shares) > 1:
            lines.append(f"    a tick is in all {len(after.shares)} of these, and what they cost adds up")
        lines.append(f"    together with learning ({after.learning:.5f}) every tick pays {after.tilt:.5f}")
    return lines


def _left(ledger: LedgerState, stream: StreamPolicy) -> list[tuple[str, str, float, float]]:
    """What is left of each audience's budget, before and after: what is spent stays spent."""
    accounts = {"operator": ledger.operator, "public": ledger.public}
    return [
        (f"left for {'operators' if audience == 'operator' else 'the public'}", audience, account.left,
         getattr(stream.epsilon, audience) - account.loss)
        for audience, account in accounts.items()
    ]  # fmt: skip


def _changes(old: StreamPolicy | None, new: StreamPolicy) -> list[str]:
    if old is None:
        return []
    was, will = old.model_dump(mode="json"), new.model_dump(mode="json")
    # Matrices say little in a line: what becomes of Θ is told below.
    matrices = ["theta"] if len(new.states) > 2 else []
    return [
        key if key in matrices else f"{key}: {_short(was[key])} → {_short(will[key])}"
        for key in will
        if was[key] != will[key]
    ]


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _chains(one: Forecast | None) -> str:
    if one is None:
        return "none"
    if isinstance(one.theta, Box):
        box = one.theta
        return f"q {box.q_low:.3g}–{box.q_high:.3g}, r {box.r_low:.3g}–{box.r_high:.3g}"
    low, high, k = one.theta.forward.low, one.theta.forward.high, one.theta.k
    stay = min(low[x][x] for x in range(k)), max(high[x][x] for x in range(k))
    moves = [(x, u) for x in range(k) for u in range(k) if u != x]
    move = min(low[x][u] for x, u in moves), max(high[x][u] for x, u in moves)
    return f"stay {stay[0]:.3g}–{stay[1]:.3g}, move {move[0]:.3g}–{move[1]:.3g}"


def _noise(one: Forecast | None) -> str:
    if one is None:
        return "none"
    if isinstance(one.noise, Noise):
        return f"ρ {one.noise.rho0:.4f}, {one.noise.rho1:.4f}"
    return kept(one.noise)


def _loss(one: Forecast | None, audience: str) -> str:
    return "none" if one is None else f"{getattr(one, audience):.4f}"


def _error(one: Forecast | None) -> str:
    return "none" if one is None else f"±{one.hourly_error:.4f}"


def _agreed() -> bool:
    try:
        return input("publish it? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        print()
        return False


def _follow(watcher: Watcher, policy: Policy, *, timeout: float, quiet: bool) -> dict[str, Progress]:
    """Tell each device's progress as it changes, until nothing more is to come or time is up."""
    told: dict[str, Progress] = {}
    deadline = time.monotonic() + timeout
    terminal = sys.stderr.isatty() and not quiet
    while True:
        found = watcher.progress(policy)
        left = deadline - time.monotonic()
        if terminal:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
        for device, one in found.items():
            if told.get(device) != one and not quiet:
                print(f"{device}: {one.state}{f' ({one.reason})' if one.reason else ''}", flush=True)
        told = found
        if left <= 0 or settled(found):
            return found
        if terminal:
            behind = sum(one.state not in FINAL for one in found.values())
            words = f"waiting for {behind} of {len(found)} devices, {left:.0f} s at most"
            print(words, end="", file=sys.stderr, flush=True)
        watcher.wait_for_news(min(left, 1.0))


def _answer(
    args: argparse.Namespace,
    policy: Policy,
    plan: Plan,
    heard: Heard,
    found: dict[str, Progress],
    *,
    published: bool,
) -> None:
    if args.json:
        streams = {
            name: {
                "before": None if before is None else asdict(before),
                "after": asdict(after),
                "left": {
                    audience: {"before": was, "after": will}
                    for _, audience, was, will in _left(heard.ledgers[name], policy.streams[name])
                }
                if name in heard.ledgers
                else None,
            }
            for name, (before, after) in plan.items()
        }
        devices = {device: asdict(one) for device, one in found.items()}
        told = {"version": policy.version, "published": published, "streams": streams, "devices": devices}
        print(json.dumps(told, ensure_ascii=False, allow_nan=False))
    elif published:
        counts = [
            f"{sum(one.state == state for one in found.values())} {state}"
            for state in ("applied", "refused", "silent", "waiting for noise", "offline")
        ]
        print(f"policy {policy.version} is published; devices: {', '.join(counts)}")
    else:
        print("nothing was published")
