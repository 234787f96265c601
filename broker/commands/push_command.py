"""`hushmq push`: check a policy file, show what changes and its consequences, sign, publish, follow the roll-out."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hushmq.broker.commands.client_options import add_broker, endpoints
from hushmq.broker.commands.policy_file import check_policy, ops_keys, read_policy, read_signed
from hushmq.broker.commands.push_warnings import check_key, renamed_in_place, what_is_left
from hushmq.broker.commands.rollout import FINAL, Progress, Received, Watcher, settled
from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.messages import MAX_PAYLOAD_BYTES, encode
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.signature import PrivateKey, Signed, verify
from hushmq.broker.contract.theta_message import RegimeThetaMessage, ThetaMessage, theta_message
from hushmq.broker.forecast.account_forecast import AccountForecast, forecast_accounts, matched_states
from hushmq.broker.forecast.choose_stride import stride_gain
from hushmq.broker.forecast.policy_forecast import Forecast, forecast
from hushmq.broker.forecast.window_forecast import WindowForecast, window_forecasts
from hushmq.pufferfish.protocols import Theta

BACK_S = 5.0
"""How many seconds the published policy may take to come back from the broker."""
ROOM = 4096
"""Bytes of a message reserved for everything besides Θ."""
CLEAR_LINE = "\r\x1b[K"
SUMMARY = "check, sign and publish a policy, and follow its roll-out"
EXAMPLES = """A policy file is TOML or JSON with the fields of the policy message. Without `version`, the next one is
used. Exit code 0: every online device has applied the policy; 1: a device refused it or did not respond.

examples:
  hushmq push policy.toml --key ops.key --broker mqtts://broker.lan --username ops --password-file ops.password
  hushmq push home/policy.toml --site home
  hushmq push signed.json --site home                  # what `hushmq policy sign` wrote where the key is
  hushmq push policy.toml --key ops.key --broker mqtt://127.0.0.1 --dry-run
  hushmq push policy.json --key ops.key --broker mqtt://127.0.0.1 --yes --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument(
        "policy",
        type=Path,
        metavar="POLICY",
        help="the policy file, .toml or .json, or what hushmq policy sign wrote",
    )
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="the private key of ops (default: SITE/ops/ops.key)"
    )
    add_broker(parser)
    parser.add_argument(
        "--new-key",
        action="store_true",
        help="the key is another one than that of the policy in force, on purpose",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, publish nothing")
    parser.add_argument("--yes", action="store_true", help="publish without asking for confirmation")
    parser.add_argument("--json", action="store_true", help="print only one JSON object, at the end")
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="follow the roll-out for at most S seconds; default: 60",
    )


def run(args: argparse.Namespace) -> int:
    if not 0 <= args.timeout <= 86_400:
        raise Problem(f"--timeout: {args.timeout:g} is out of range: 0 to 86400 seconds")
    tree = read_policy(args.policy)
    signed = read_signed(tree, args.policy)
    # What is wrong with the key or the signature is found before anything else.
    if signed is None:
        _key(args)
    else:
        _check_signed(signed, args)
    tree = tree if signed is None else signed.message.model_dump(mode="json")
    check_policy(tree, args.policy, version=tree.get("version", 1))
    if not (args.dry_run or args.yes or sys.stdin.isatty()):
        raise Problem(
            "--yes: standard input is not a terminal to ask for confirmation: give --yes or --dry-run"
        )
    watcher = Watcher(endpoints(args), str(tree.get("cohort", "")))
    try:
        watcher.open()
        policy = _versioned(tree, args.policy, watcher.received)
        if signed is None:
            signed = _key(args).sign(policy)
        else:
            policy = signed.message
        check_key(signed.key, watcher.received, new_key=args.new_key)
        payload = encode(signed)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise Problem(
                f"{args.policy}: the message has {len(payload)} bytes; devices read at most {MAX_PAYLOAD_BYTES}"
            )
        plan = _plan(policy, watcher.received)
        if not args.json:
            print("\n".join(_words(policy, watcher.received, plan)))
        if args.dry_run or not (args.yes or _agreed()):
            _answer(args, policy, plan, watcher.received, {}, published=False)
            return 0 if args.dry_run else 1
        watcher.publish(policy, payload, timeout=BACK_S)
        found = _follow(watcher, policy, timeout=args.timeout, quiet=args.json)
    finally:
        watcher.close()
    _answer(args, policy, plan, watcher.received, found, published=True)
    return 0 if settled(found) and all(one.state != "refused" for one in found.values()) else 1


def _key(args: argparse.Namespace) -> PrivateKey:
    if args.key is not None:
        return PrivateKey.load(args.key)
    if args.site is None:
        raise Problem("--key: missing; give the private key of ops, with which devices know the policy")
    return PrivateKey.load(args.site / "ops" / "ops.key")


def _check_signed(signed: Signed[Policy], args: argparse.Namespace) -> None:
    """Raise Problem unless one of the site's ops keys signed the policy; without a site, nobody here knows them."""
    if args.site is None:
        return
    try:
        verify(Policy, encode(signed), ops_keys(args.site / "calibrator.toml"))
    except Rejected as rejected:
        raise Problem(f"{args.policy}: no ops key of {args.site} signed it: {rejected}") from None


def _versioned(tree: dict[str, Any], path: Path, received: Received) -> Policy:
    present = received.highest_version
    in_use = received.policy.streams if received.policy else None
    policy = check_policy(tree, path, version=tree.get("version", present + 1), in_use=in_use)
    if policy.version <= present:
        raise Problem(f"{path}: version: {policy.version} is not above {present}, which is in force: omit it")
    for name, stream in policy.streams.items():
        old = received.policy.streams.get(name) if received.policy else None
        if old is not None and old.period_ms != stream.period_ms:
            raise Problem(
                f"{path}: streams.{name}.period_ms: {old.period_ms} is in use and never changes: "
                "give the stream a new name"
            )
        if old is not None and old.stride != stream.stride:
            raise Problem(
                f"{path}: streams.{name}.stride: {old.stride} is in use and never changes: give the stream a new name"
            )
        if old is not None and len(old.states) != len(stream.states):
            raise Problem(
                f"{path}: streams.{name}.states: {len(old.states)} are in use, and their number never changes: "
                "give the stream a new name"
            )
        if old is not None and stream.epoch < old.epoch:
            raise Problem(
                f"{path}: streams.{name}.epoch: {stream.epoch} is below {old.epoch}, which is in force: it only rises"
            )
        # The largest message of a stream is its ledger: Θ twice, including the intervals of the reversed chain.
        size = 2 * len(theta_message(stream.theta.start.chains).model_dump_json())
        if size > MAX_PAYLOAD_BYTES - ROOM:
            raise Problem(
                f"{path}: streams.{name}.states: Θ of {len(stream.states)} states does not fit into messages of "
                f"{MAX_PAYLOAD_BYTES} bytes: use bounds with fewer digits, or fewer states"
            )
    return policy


def devices_of(policy: Policy, received: Received) -> dict[str, int]:
    """Return on how many devices each stream of a policy runs."""
    statuses = received.statuses.values()
    return {name: sum(name in status.streams for status in statuses) for name in policy.streams}


Plan = dict[str, tuple[Forecast | None, AccountForecast]]


def _plan(policy: Policy, received: Received) -> Plan:
    """Return for each stream the forecast under the present policy, if there is one, and under the new policy."""
    was = priced_streams(received.policy) if received.policy else {}
    before: dict[str, Forecast] = {}
    thetas: dict[str, Theta] = {}
    devices = devices_of(policy, received)
    for name, stream in policy.streams.items():
        old = was[name].policy if name in was else None
        setting = received.settings.get(name)
        if old is not None and setting is not None:
            # Where the old policy can no longer be kept, a new one must still be possible to push.
            with suppress(Problem):
                theta, noise = setting.theta.chains, setting.noise.noise
                before[name] = forecast(old, theta, devices=devices[name], noise=noise)
        stated = received.policy.streams.get(name) if received.policy else None
        same = (
            stated is not None
            and stated.theta.start == stream.theta.start
            and new_epoch(stated, stream) is None
        )
        thetas[name] = _hull(
            setting.theta if setting is not None and same else stream.theta.start, stream.theta.floor
        )
    return {name: (before.get(name), one) for name, one in forecast_accounts(policy, thetas, devices).items()}


def _hull(learned: ThetaMessage, floor: ThetaMessage) -> Theta:
    """Return Θ right after the change: the hull of the learned Θ (or the new start) and the floor."""
    if type(learned) is not type(floor) or learned.k != floor.k:
        raise Problem("the setting in force is for another number of states than the policy in force")
    # Values of one class have a hull, whichever class it is.
    theta: Any = learned.chains
    hull: Theta = theta.hull(floor.chains)
    return hull


def _lost_policy(received: Received) -> list[str]:
    retained = received.policy.version if received.policy else 0
    if received.highest_version <= retained:
        return []
    return [
        f"  NOTE: the broker retains {f'policy {retained}' if retained else 'no policy'}, but policy "
        f"{received.highest_version} is followed: the broker has come back older, and is what this is compared with"
    ]


def _words(policy: Policy, received: Received, plan: Plan) -> list[str]:
    present = received.highest_version
    lines = [
        f"cohort {policy.cohort}: policy {present or 'none'} → {policy.version}",
        *_lost_policy(received),
        *matched_states(policy),
    ]
    gone = sorted(set(received.policy.streams if received.policy else ()) - set(policy.streams))
    lines += [f"  {name}: removed; devices stop publishing it" for name in gone]
    devices, pasts = devices_of(policy, received), _pasts(plan, received)
    for name, (before, forecasted) in plan.items():
        after = forecasted.after
        old = received.policy.streams.get(name) if received.policy else None
        changes = _changes(old, policy.streams[name])
        lines.append(f"  {name}: {'new' if old is None else ', '.join(changes) or 'unchanged'}")
        reason = None if old is None else new_epoch(old, policy.streams[name])
        if reason is not None:
            lines += [
                f"    NEW EPOCH: {reason}. What was learned of {name} is dropped, and learned anew from theta.start;",
                "    ticks so far are accounted for under what was believed until now, and devices publish nothing "
                "of it until they have the new noise",
            ]
        lines += _stride(policy, name)
        lines += [
            f"    {'chains assumed':<28}{_chains(before):>18} → {_chains(after)}",
            f"    {'noise on the device':<28}{_noise(before):>18} → {_noise(after)}",
            f"    {'loss to operators':<28}{_loss(before, 'operator'):>18} → {after.operator:.4f}",
            f"    {'loss to the public':<28}{_loss(before, 'public'):>18} → {after.public:.4f}",
            *_undecided(before, after, policy.streams[name]),
            f"    {'error of an hourly histogram':<28}{_error(before):>18} → ±{after.hourly_error:.4f}",
            *forecasted.in_words(),
        ]
        lines.append(f"    if learning is deceived, at most {after.deceived.in_words()}")
        if policy.streams[name].adversary != "informed":
            lines.append("    NOTE: both losses assume an adversary who knows no state at any other instant")
        if isinstance(policy.streams[name].theta.start, RegimeThetaMessage):
            lines.append(
                "    NOTE: Θ is the chains that theta.start lists and none between them; nothing is learned beyond it, "
                "and a known state would tell the regime around it"
            )
        ledger = received.ledgers.get(name)
        if old is not None and (renamed := renamed_in_place(old, policy.streams[name])) is not None:
            lines.append(f"    WARNING: {renamed}")
        if ledger is not None and reason is None:
            for left in what_is_left(ledger, forecasted.account.policy, pasts.get(name)):
                least = " at least, under the new Θ" if left.repriced else ""
                lines.append(f"    {left.words:<28}{left.before:>18.4f} → {left.after:.4f}{least}")
                if left.after < -1e-9:
                    lines.append(
                        f"    WARNING: {'up to ' * left.repriced}{-left.after:.4f} more than the new ε of the "
                        f"{left.audience} is already spent: the stream stops, or goes on in a new epoch"
                    )
        if old is not None and policy.streams[name].epsilon.operator > old.epsilon.operator:
            lines.append(
                "    NOTE: ε rises: ticks under the new policy also reveal more about the last ticks under the old one"
            )
        lines += _windows(after, window_forecasts(forecasted.account.policy, after, devices=devices[name]))
        if len(after.shares) > 1:
            lines.append(f"    a tick is in all {len(after.shares)} of these windows, and their tilts add up")
        lines.append(f"    with learning ({after.learning:.5f}) the total tilt of a tick is {after.tilt:.5f}")
    return lines


def _windows(after: Forecast, found: Sequence[WindowForecast]) -> list[str]:
    """Return a line for every window that the calibrator releases: its tilt, its noise, the 95% interval of a share."""
    lines = []
    for share, one in zip(after.shares, found, strict=False):
        lines.append(
            f"    window {share.window} ({share.ticks} ticks) for the {share.scope}: "
            f"tilt {share.tilt:.5f}, noise of scale {share.scale:.1f}, a share ±{one.half_width:.2g} (95%)"
        )
        if not one.tells:
            lines.append("    WARNING: that is less than no data tells: whoever says ½ is off by 0.5 at most")
    return lines


def _pasts(plan: Plan, received: Received) -> dict[str, Forecast]:
    """Return the forecasts of what is in force under the Θ of the new policy, where that is another one."""
    was = priced_streams(received.policy) if received.policy else {}
    found = {}
    for name, (before, one) in plan.items():
        setting = received.settings.get(name)
        if before is None or setting is None or one.after.theta == before.theta:
            continue
        with suppress(Problem):
            found[name] = forecast(was[name].policy, one.after.theta, devices=1, noise=setting.noise.noise)
    return found


def _stride(policy: Policy, name: str) -> list[str]:
    """How much of the stream is published where not every tick is, and what that is good for."""
    own = policy.streams[name]
    if own.stride == 1:
        return []
    every = policy.model_copy(
        update={"streams": policy.streams | {name: own.model_copy(update={"stride": 1})}}
    )
    gain = stride_gain(every, name, own.stride)
    better = (
        "" if gain is None else f"; the windows' errors are {gain:.2g} times smaller than with all of them"
    )
    return [
        f"    one of {own.stride} ticks is published, every {own.stride_ms / 1000:g} s, and every tick is protected"
        f"{better}"
    ]


def new_epoch(old: StreamPolicy, new: StreamPolicy) -> str | None:
    """Why a policy begins a new epoch of a stream, in words; None if it does not."""
    if old.meaning != new.meaning:
        parts = ("states", "discretiser", "stand_in_state", "period_ms", "source")
        names = [one.removesuffix("_state") for one in parts if getattr(old, one) != getattr(new, one)]
        return f"the states mean something else ({', '.join(names)})"
    if old.epoch < new.epoch:
        return f"ops begin epoch {new.epoch}"
    return None


def _changes(old: StreamPolicy | None, new: StreamPolicy) -> list[str]:
    if old is None:
        return []
    was, will = old.model_dump(mode="json"), new.model_dump(mode="json")
    # Matrices are too long for one line; the change of Θ is shown below.
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
    return "none" if one is None else one.theta.in_brief()


def _noise(one: Forecast | None) -> str:
    return "none" if one is None else one.noise.in_words()


def _loss(one: Forecast | None, audience: str) -> str:
    return "none" if one is None else f"{getattr(one, audience):.4f}"


def _undecided(before: Forecast | None, after: Forecast, stream: StreamPolicy) -> list[str]:
    """Return the losses to the undecided adversary, unless the policy is priced for that one anyway."""
    if stream.adversary == "undecided":
        return []
    return [
        f"    {words:<28}{_loss(before, field):>18} → {getattr(after, field):.4f}"
        for words, field in (
            ("operators, undecided", "undecided_operator"),
            ("the public, undecided", "undecided_public"),
        )
    ]


def _error(one: Forecast | None) -> str:
    return "none" if one is None else f"±{one.hourly_error:.4f}"


def _agreed() -> bool:
    try:
        return input("publish it? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:
        print()
        return False


def _follow(watcher: Watcher, policy: Policy, *, timeout: float, quiet: bool) -> dict[str, Progress]:
    """Print each device's progress as it changes, until all devices are done or `timeout` has passed."""
    printed: dict[str, Progress] = {}
    deadline = time.monotonic() + timeout
    terminal = sys.stderr.isatty() and not quiet
    while True:
        found = watcher.progress(policy)
        left = deadline - time.monotonic()
        if terminal:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
        for device, one in found.items():
            if printed.get(device) != one and not quiet:
                print(f"{device}: {one.state}{f' ({one.reason})' if one.reason else ''}", flush=True)
        printed = found
        if left <= 0 or settled(found):
            return found
        if terminal:
            behind = sum(one.state not in FINAL for one in found.values())
            words = f"waiting for {behind} of {len(found)} devices, {left:.0f} s at most"
            print(words, end="", file=sys.stderr, flush=True)
        watcher.wait_for_message(min(left, 1.0))


def _answer(
    args: argparse.Namespace,
    policy: Policy,
    plan: Plan,
    received: Received,
    found: dict[str, Progress],
    *,
    published: bool,
) -> None:
    if args.json:
        pasts = _pasts(plan, received)
        streams = {
            name: {
                "new_epoch": new_epoch(received.policy.streams[name], policy.streams[name])
                if received.policy is not None and name in received.policy.streams
                else None,
                "before": None if before is None else before.as_tree(),
                "after": one.after.as_tree(),
                "windows": [
                    each.as_tree()
                    for each in window_forecasts(
                        one.account.policy, one.after, devices=devices_of(policy, received)[name]
                    )
                ],
                "account": one.as_tree(),
                "left": {
                    left.audience: {"before": left.before, "after": left.after, "repriced": left.repriced}
                    for left in what_is_left(received.ledgers[name], one.account.policy, pasts.get(name))
                }
                if name in received.ledgers
                else None,
            }
            for name, (before, one) in plan.items()
        }
        devices = {device: asdict(one) for device, one in found.items()}
        answer = {"version": policy.version, "published": published, "streams": streams, "devices": devices}
        print(json.dumps(answer, ensure_ascii=False, allow_nan=False))
    elif published:
        counts = [
            f"{sum(one.state == state for one in found.values())} {state}"
            for state in ("applied", "refused", "silent", "waiting for noise", "offline")
        ]
        print(f"policy {policy.version} is published; devices: {', '.join(counts)}")
    else:
        print("nothing was published")
