"""`hushmq device`: let devices join a site, list them, shut them out."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from hushmq.broker.commands.rollout import Watcher
from hushmq.broker.contract.messages import Status
from hushmq.broker.contract.problem import Problem
from hushmq.setup.agent_settings import KINDS, sources_of
from hushmq.setup.household import OPS, Household
from hushmq.setup.source_login import SourceLogin, add_source_login

EXAMPLES = """A bundle is one file with all that a device needs: its settings, its password, the broker's authority.
It is as secret as the password in it. Carry it over, then run `hushmq agent enroll FILE` there.

examples:
  hushmq device add home wearable-1 --source simulate --here
  hushmq device add home ring --source serial=/dev/ttyUSB0
  hushmq device add home door --source mqtt=mqtt://localhost/zigbee2mqtt/front_door --json-path contact \\
      --source-user hushmq --source-password-file z2m.password
  hushmq device list home
  hushmq device revoke home wearable-1
  hushmq device forget home wearable-1"""
FORGET = """Shuts the device out if it is not, deletes what the calibrator has of it (noisy states, statistics, its
place in windows) and clears its retained topics. Debits stay, with the settings, releases and estimates that price
them: what has been told cannot be taken back. Broker and calibrator should run.

examples:
  hushmq device forget home wearable-1
  hushmq device forget home wearable-1 --yes --json"""
ANSWER_S = 3.0
"""How long the broker may take to answer before devices are listed without their status."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="add|list|revoke|forget")
    add = actions.add_parser("add", help="let a device join, and write its bundle", epilog=EXAMPLES)
    revoke = actions.add_parser("revoke", help="shut a device out; what it has published stays")
    listing = actions.add_parser("list", help="list the devices of a site, and how they are")
    forget = actions.add_parser(
        "forget", help="shut a device out and delete all that is known of it but its debits", epilog=FORGET
    )
    for each in (add, listing, revoke, forget):
        each.add_argument("site", type=Path, metavar="SITE", help="the site's folder")
        each.add_argument("--json", action="store_true", help="print one JSON object")
    for each in (add, revoke, forget):
        each.add_argument("name", metavar="NAME", help="the device's name, as in its topics")
    forget.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add.add_argument(
        "--source",
        action="append",
        default=[],
        metavar="[STREAM:]KIND",
        help=f"where its values come from: {KINDS}; may be repeated, for several streams",
    )
    add.add_argument("--json-path", metavar="PATH", help="values are JSON, and the value is at this path")
    add_source_login(add)
    add.add_argument(
        "--out", type=Path, metavar="FILE", help="the bundle to write (default: SITE/bundles/NAME.bundle)"
    )
    add.add_argument("--here", action="store_true", help="run it on this machine, with hushmq up")


def run(args: argparse.Namespace) -> int:
    household = Household.open(args.site)
    match args.action:
        case "add":
            return _add(household, args)
        case "revoke":
            return _revoke(household, args)
        case "forget":
            return _forget(household, args)
    return _list(household, args)


def _add(household: Household, args: argparse.Namespace) -> int:
    policy = household.policy()
    sources = sources_of(args.source, args.json_path, policy, SourceLogin.of(args))
    for name, source in sources.items():
        source.settings(policy.streams[name])  # a bad one is found before the device is added
    if args.here and args.out is not None:
        raise Problem("--out: a device that runs here needs no bundle: leave out --here or --out")
    out: Path = args.out or household.path / "bundles" / f"{args.name}.bundle"
    if not args.here and out.exists():
        raise Problem(f"--out: {out} exists already: remove it, or name another file")
    household.folder.add("device", args.name)
    bundle = household.bundle(args.name, sources, policy, here=args.here)
    if args.here:
        settings = bundle.unpack(household.path / "here" / args.name)
        where, words = settings, f"{args.name}: {settings}; it runs with hushmq up {args.site}"
    else:
        bundle.save(out)
        where, words = out, f"{out}: carry it over, then: hushmq agent enroll {out.name}"
    if args.json:
        print(json.dumps({"device": args.name, "file": str(where), "streams": sorted(sources)}))
    else:
        print(words)
    return 0


def _revoke(household: Household, args: argparse.Namespace) -> int:
    if household.folder.description.role(args.name) != "device":
        raise Problem(f"there is no device {args.name!r} in {household.path / 'site.toml'}")
    household.revoke(args.name)
    if args.json:
        print(json.dumps({"revoked": args.name}))
    else:
        print(f"{args.name} is shut out; its outbox and what it has published stay")
    return 0


def _forget(household: Household, args: argparse.Namespace) -> int:
    # The calibrator's database needs an extra, which the other actions do not.
    try:
        from hushmq.setup.forget_device import forget  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Problem(f"{error.name} is not installed: pip install 'hushmq[calibrator]'") from None
    if not args.yes:
        if not sys.stdin.isatty():
            raise Problem("--yes: standard input is not a terminal to ask for confirmation: give --yes")
        question = f"forget {args.name}? What it has sent is deleted, its debits stay [y/N] "
        if input(question).strip().lower() not in {"y", "yes"}:
            print("nothing was changed")
            return 1
    found = forget(household, args.name)
    if args.json:
        print(json.dumps({"forgotten": args.name, "rows": found.rows, "left": found.left}))
    else:
        print(f"{args.name} is forgotten: {found.rows} rows deleted, its topics are clear; debits stay")
        for line in found.left:
            print(f"  left: {line}")
    return 1 if found.left else 0


def _list(household: Household, args: argparse.Namespace) -> int:
    names = household.folder.description.named("device")
    statuses, why = _statuses(household)
    here = household.here()
    if args.json:
        rows = {name: _tree(statuses.get(name), here=name in here) for name in names}
        print(json.dumps({"cohort": household.cohort, "broker": why is None, "devices": rows}))
        return 0
    if why is not None:
        print(f"the broker does not answer ({why}): start it with hushmq up {args.site}")
    width = max(map(len, names), default=0)
    for name in names:
        print(f"{name:<{width}}  {_words(statuses.get(name))}{', runs here' if name in here else ''}")
    if not names:
        print(f"no devices yet: hushmq device add {args.site} NAME --source simulate --here")
    return 0


def _statuses(household: Household) -> tuple[dict[str, Status], str | None]:
    """The status of every device, and why there is none if the broker does not answer."""
    watcher = Watcher([household.folder.endpoint(OPS)], household.cohort)
    try:
        watcher.open(timeout=ANSWER_S)
        return dict(watcher.received.statuses), None
    except Problem as problem:
        return {}, str(problem).removeprefix("--broker: ")
    finally:
        watcher.close()


def _tree(status: Status | None, *, here: bool) -> dict[str, Any]:
    return {"here": here, "status": None if status is None else status.model_dump(mode="json")}


def _words(status: Status | None) -> str:
    if status is None:
        return "not seen yet"
    state = {True: "online", False: "offline", None: "presence hidden"}[status.online]
    streams = ", ".join(
        f"{name} {'waits for noise' if one.noise is None else f'noise {one.noise}'}, {one.buffered} ticks to send"
        for name, one in status.streams.items()
    )
    return "; ".join(filter(None, [state, f"policy {status.policy or 'none'}", streams]))
