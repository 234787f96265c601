"""`hushmq push`: check a policy file, show what changes and its consequences, sign, publish, follow the roll-out."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hushmq.broker.commands.client_options import add_broker, endpoints
from hushmq.broker.commands.policy_file import check_policy, ops_keys, payload_of, read_policy, read_signed
from hushmq.broker.commands.push_plan import Plan, devices_of, new_epoch, plan_streams, repriced_pasts
from hushmq.broker.commands.push_warnings import check_key, what_is_left
from hushmq.broker.commands.push_words import words_of
from hushmq.broker.commands.rollout import FINAL, Progress, Received, Watcher, nobody_applied, settled
from hushmq.broker.commands.staged_push import all_applied, check_stages, stages_of
from hushmq.broker.contract.messages import MAX_PAYLOAD_BYTES, encode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.signature import PrivateKey, Signed, verify
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.forecast.query_forecast import query_forecasts
from hushmq.broker.forecast.window_forecast import window_forecasts
from hushmq.broker.service.screen_picture import save_screen

BACK_S = 5.0
"""How many seconds the published policy may take to come back from the broker."""
ROOM = 4096
"""Bytes of a message reserved for everything besides Θ."""
CLEAR_LINE = "\r\x1b[K"
SUMMARY = "check, sign and publish a policy, and follow its roll-out"
EXAMPLES = """A policy file is TOML or JSON with the fields of the policy message. Without `version`, the next one is
used. Exit code 0: every online device has applied the policy; 1: a device refused it or did not respond.
With --first a few devices apply it first, the others check it and go on as before; once they have applied it, it is
published to all, one version higher.

examples:
  hushmq push policy.toml --key ops.key --broker mqtts://broker.lan --username ops --password-file ops.password
  hushmq push home/policy.toml --site home
  hushmq push signed.json --site home                  # what `hushmq policy sign` wrote where the key is
  hushmq push home/policy.toml --site home --first ring,band     # these two first, then all; or --first 2
  hushmq push policy.toml --broker mqtt://127.0.0.1 --dry-run    # what would change; needs no key
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
    parser.add_argument(
        "--first",
        metavar="DEVICES",
        help="have these devices apply it first: names with commas, or how many of those on line",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, publish nothing")
    parser.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="save what would change as a picture"
    )
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
    key = _key(args) if signed is None and not _is_review(args) else None
    if signed is not None:
        _check_signed(signed, args)
        if args.first is not None:
            raise Problem("--first: a signed policy says it itself: hushmq policy sign --first")
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
        if signed is not None:
            policy = signed.message
            if policy.first_devices:
                check_stages(policy, watcher.received)
        stages = stages_of(policy, args.first, watcher.received)
        # Of a review a key is made up: the message's length alone is looked at.
        messages = (
            [signed] if signed is not None else [(key or PrivateKey.generate()).sign(one) for one in stages]
        )
        if signed is not None or key is not None:
            check_key(messages[0].key, watcher.received, new_key=args.new_key)
        payloads = [payload_of(one, args.policy) for one in messages]
        plan = plan_streams(policy, watcher.received)
        words = "\n".join(words_of(policy, watcher.received, plan))
        if args.picture is not None:
            save_screen(args.picture, "hushmq push", words)
        if not args.json:
            print(words)
            if stages[0].first_devices:
                print(f"first for {', '.join(stages[0].first_devices)}")
        if args.dry_run or not (args.yes or _agreed("publish it?")):
            _answer(args, policy, plan, watcher.received, {}, published=False)
            return 0 if args.dry_run else 1
        for policy, payload in zip(stages, payloads, strict=True):  # the last one published is told
            watcher.publish(policy, payload, timeout=BACK_S)
            found = _follow(watcher, policy, timeout=args.timeout, quiet=args.json)
            if len(stages) > 1 and policy is stages[0]:
                if not all_applied(policy, found):
                    break
                if not args.yes and not _agreed("all of them have applied it: publish it to all devices?"):
                    break
    finally:
        watcher.close()
    _answer(args, policy, plan, watcher.received, found, published=True)
    if policy.first_devices:
        return 0 if signed is not None and all_applied(policy, found) else 1
    return 0 if settled(found) and all(one.state != "refused" for one in found.values()) else 1


def _is_review(args: argparse.Namespace) -> bool:
    """Whether only what would change is asked for, by somebody without a key."""
    return bool(args.dry_run) and args.key is None and args.site is None


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
                f"{path}: streams.{name}.stride: {old.stride} is in use and never changes: write that, or give the "
                "stream a new name"
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


def _agreed(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
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
        pasts = repriced_pasts(plan, received)
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
                "queries": [
                    each.as_tree()
                    for each in query_forecasts(
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
        answer = {
            "version": policy.version,
            "published": published,
            "first_devices": list(policy.first_devices),
            "streams": streams,
            "devices": devices,
            "nobody_applied": nobody_applied(policy, found, received),
        }
        print(json.dumps(answer, ensure_ascii=False, allow_nan=False))
    elif published:
        counts = [
            f"{sum(one.state == state for one in found.values())} {state}"
            for state in ("applied", "refused", "silent", "waiting for noise", "offline", "held back")
            if state != "held back" or policy.first_devices
        ]
        print(f"policy {policy.version} is published; devices: {', '.join(counts)}")
        if policy.first_devices:
            print(
                f"it is for {', '.join(policy.first_devices)} alone: push it without --first for all, or the former "
                "file again to take it back"
            )
        if (advice := nobody_applied(policy, found, received)) is not None:
            print(f"WARNING: {advice}")
    else:
        print("nothing was published")
