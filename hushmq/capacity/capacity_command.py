"""`hushmq capacity`: what a fleet takes, and what of it breaks first."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hushmq.broker.commands.policy_file import check_policy, read_policy, read_signed
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.problem import Problem
from hushmq.capacity.breaking_points import BreakingPoint, breaking_points
from hushmq.capacity.capacity_plan import Capacity, Wanted, capacity
from hushmq.capacity.stream_load import StreamLoad, of_policy
from hushmq.capacity.unit_costs import default_path, read_costs, write_costs
from hushmq.commands.durations import duration
from hushmq.commands.progress_bar import bar

NOTES = """Messages, bytes, cores, memory, disk and rows, from unit costs: measured on this machine with --measure
(about a minute, against a broker and databases that it starts in a temporary folder), or those published with hushmq.
Cores are averages; plan with 60% of each. With --policy streams, windows, period and stride are read from a policy.
docs/capacity.md has it for up to ten million devices.

examples:
  hushmq capacity --devices 1000 --window 15min
  hushmq capacity --devices 100000 --cohorts 200 --window 1h --window 1d:device --database postgresql
  hushmq capacity --devices 5000 --policy policy.toml --json
  hushmq capacity --measure
  hushmq capacity --measure --postgres postgresql+psycopg://hushmq@localhost/test"""
WINDOW = "15min"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = NOTES
    parser.add_argument("--devices", type=_count, metavar="N", help="devices, of all cohorts together")
    parser.add_argument("--cohorts", type=_count, default=1, metavar="N", help="cohorts; default: 1")
    parser.add_argument(
        "--period", type=duration, metavar="TIME", help="how long a tick lasts, e.g. 10s; default: 10s"
    )
    parser.add_argument(
        "--beat", type=duration, default=10.0, metavar="TIME", help="how often a device sends; default: 10s"
    )
    parser.add_argument("--stride", type=_count, metavar="N", help="of so many ticks one is sent; default: 1")
    parser.add_argument(
        "--window",
        type=_window,
        action="append",
        metavar="TIME[:SCOPE]",
        help="a window, with one release for the cohort, or with :device for each device; may be repeated; "
        f"default: {WINDOW}",
    )
    parser.add_argument("--states", type=_count, metavar="K", help="states of the stream; default: 2")
    parser.add_argument("--policy", type=Path, metavar="FILE", help="read streams and windows from a policy")
    parser.add_argument("--broker", choices=("nats", "mosquitto"), default="nats", help="default: nats")
    parser.add_argument(
        "--database", choices=("sqlite", "postgresql"), default="sqlite", help="default: sqlite"
    )
    parser.add_argument(
        "--costs", type=Path, metavar="FILE", help=f"the file of unit costs; default: {_shown_path()}"
    )
    parser.add_argument(
        "--measure", action="store_true", help="measure unit costs on this machine, and store them"
    )
    parser.add_argument(
        "--postgres", metavar="URL", help="with --measure: a database of PostgreSQL to measure as well"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _shown_path() -> str:
    return "~/.local/share/hushmq/unit-costs.json"


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10**12:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def _window(text: str) -> tuple[float, str]:
    length, _, scope = text.partition(":")
    if scope not in {"", "cohort", "device"}:
        raise argparse.ArgumentTypeError(f"{text!r}: the scope is cohort or device, as in 15min:device")
    return duration(length), scope or "cohort"


def run(args: argparse.Namespace) -> int:
    if args.measure:
        return _measure(args)
    if args.postgres is not None:
        raise Problem("--postgres: it is for --measure")
    if args.devices is None:
        raise Problem("--devices: missing; give how many, or --measure")
    if args.cohorts > args.devices:
        raise Problem(
            f"--cohorts: {args.cohorts} cohorts for {args.devices} devices: at most one for each device"
        )
    costs, which = read_costs(args.costs)
    wanted = Wanted(
        args.devices, args.cohorts, _streams(args), round(args.beat * 1000), args.broker, args.database
    )
    try:
        found = capacity(wanted, costs)
    except ValueError as error:
        raise Problem(f"--costs: {error}: hushmq capacity --measure") from None
    points = breaking_points(wanted, found)
    if args.json:
        print(
            json.dumps(
                {
                    **found.as_tree(),
                    "breaks": [
                        {"what": one.what, "used": one.used, "limit": one.limit, "then": one.then}
                        for one in points
                    ],
                    "costs": {"which": which, **costs.as_tree()["machine"]},
                }
            )
        )
        return 0
    _print(found, points)
    print(f"unit costs: {which}; measured {costs.machine.words()}")
    return 0


def _streams(args: argparse.Namespace) -> list[StreamLoad]:
    """The streams of the policy, or the one that the options describe."""
    if args.policy is not None:
        for name in ("period", "stride", "window", "states"):
            if getattr(args, name) is not None:
                raise Problem(f"--{name}: the policy says it; leave it out, or leave --policy out")
        tree = read_policy(args.policy)
        signed = read_signed(tree, args.policy)
        policy = signed.message if signed else check_policy(tree, args.policy, version=tree.get("version", 1))
        return [of_policy(name, stream) for name, stream in policy.streams.items()]
    period_ms = round(1000 * (args.period or 10.0))
    stride = args.stride or 1
    windows = {}
    for number, (seconds, scope) in enumerate(args.window or [_window(WINDOW)]):
        ticks = round(1000 * seconds / period_ms)
        if ticks < 1 or ticks % stride:
            raise Problem(
                f"--window: {seconds:g} s is no whole number of {'strides' if stride > 1 else 'ticks'} of "
                f"{period_ms * stride / 1000:g} s"
            )
        windows[f"window-{number}"] = Window(ticks=ticks, scopes=(scope,))
    states = [f"state-{number}" for number in range(args.states or 2)]
    if not 2 <= len(states) <= 256:
        raise Problem(f"--states: {len(states)} is not from 2 to 256")
    return [StreamLoad("stream", states, period_ms, stride, windows)]


def _measure(args: argparse.Namespace) -> int:
    from hushmq.capacity.measure_costs import measure_costs  # noqa: PLC0415  # needs what a device does not have

    costs = measure_costs(args.postgres, bar("measure"))
    path = args.costs or default_path()
    write_costs(path, costs)
    if args.json:
        print(json.dumps({"file": str(path), **costs.as_tree()}))
        return 0
    for name, one in costs.databases.items():
        print(f"{name}: {1e6 * one.batch_s:.0f} µs for a batch, {1e6 * one.release_s:.0f} µs for a release")
    for broker, each in costs.brokers.items():
        print(
            f"{broker}: {1e6 * each.batch_s:.0f} µs for a batch, {each.connection_bytes / 1e3:.0f} kB a connection"
        )
    print(f"{path}: written; hushmq capacity reads it from now on")
    return 0


def _print(found: Capacity, points: list[BreakingPoint]) -> None:
    lines = [
        (
            "messages at the broker",
            f"{found.broker_messages_per_s:,.1f} /s",
            "batches, and what answers them",
        ),
        (
            "bytes on the wire",
            f"{size(found.wire_bytes_per_day)} a day",
            "devices and calibrators, without TLS",
        ),
        (
            "calibrators",
            f"{found.calibrator_cores:.3g} cores",
            f"{size(found.calibrator_memory_bytes)} of memory",
        ),
        ("broker", f"{found.broker_cores:.3g} cores", f"{size(found.broker_memory_bytes)} of memory"),
        ("database server", f"{found.database_cores:.3g} cores", "SQLite's are the calibrator's"),
        (
            "rows written",
            f"{found.written_rows_per_day:,.0f} a day",
            f"{found.rows_per_day:,.0f} of them stay",
        ),
        ("disk, bounded", size(found.bounded_bytes), "states that windows need, newest releases, devices"),
        ("entries", f"{size(found.entry_bytes_per_year)} a year", f"{found.entries_per_day:,.0f} rows a day"),
        (
            "releases",
            f"{size(found.release_bytes_per_year)} a year",
            f"{found.releases_per_day:,.0f} rows a day",
        ),
        ("  in an archive", f"{size(found.archived_bytes_per_year)} a year", "hushmq ledger archive"),
    ]
    names, values = (max(len(line[column]) for line in lines) for column in (0, 1))
    for name, value, meaning in lines:
        print(f"{name:<{names}}  {value:>{values}}  {meaning}")
    first = points[0]
    print(f"breaks first: {first.what}, {first.units} of {first.limit}; then: {first.then}")


def size(count: float) -> str:
    """A number of bytes in the largest unit that keeps it short."""
    for unit, factor in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
