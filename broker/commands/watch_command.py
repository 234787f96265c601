"""`hushmq watch`: print releases, status and accounts as they arrive, one line each, as text or JSON."""

from __future__ import annotations

import argparse
import json
import queue
import time
from collections.abc import Callable
from typing import Literal, get_args

from pydantic import BaseModel

from hushmq.broker.commands.answer_words import answers_in_words
from hushmq.broker.commands.client_options import add_broker, cohort_of, endpoints
from hushmq.broker.contract.messages import Account, LedgerState, NoiseSetting, Release, Status, decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.broker.contract.topics import Address, Topics, parse
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.service.log import logger

SUMMARY = "print releases and status as they arrive"
Kind = Literal["release", "status", "ledger", "noise", "policy"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SHOWN = 8
"""How many states of a release a text line shows at most: the most frequent ones."""
EXAMPLES = """A subscriber may read releases only: give --only release.

examples:
  hushmq watch --cohort home --broker mqtt://127.0.0.1 --username ops --password-file ops.password
  hushmq watch --site home
  hushmq watch --cohort home --broker mqtt://127.0.0.1 --only release --json
  hushmq watch --cohort home --broker mqtt://127.0.0.1 --seconds 10"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--cohort", help="the cohort to watch (default: that of --site)")
    add_broker(parser)
    parser.add_argument(
        "--only",
        action="append",
        choices=KINDS,
        help="print only these messages; may be repeated; default: release, status",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per line: topic, retained, message"
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="end after S seconds; default: never")


def run(args: argparse.Namespace) -> int:
    cohort = cohort_of(args)
    if args.seconds is not None and not args.seconds > 0:
        raise Problem(f"--seconds: {args.seconds:g} is not above 0")
    topics, kinds = Topics(cohort), tuple(args.only or ("release", "status"))
    arrived: queue.SimpleQueue[tuple[str, bytes, bool]] = queue.SimpleQueue()
    connection = Connection(
        endpoints=endpoints(args),
        client_id=f"watch-{cohort}-{time.monotonic_ns():x}",
        subscriptions=[topics.all(kind) for kind in kinds],
        on_message=lambda topic, payload, retained: arrived.put((topic, payload, retained)),
        keep_session=False,
        log=logger("error"),
    )
    connection.start()
    try:
        if not connection.wait_connected(10.0):
            raise Problem(f"--broker: {connection.last_error or 'no answer'}")
        end = None if args.seconds is None else time.monotonic() + args.seconds
        while end is None or time.monotonic() < end:
            try:
                topic, payload, retained = arrived.get(timeout=0.2)
            except queue.Empty:
                continue
            line = message_line(topic, payload, retained, as_json=args.json)
            if line is not None:
                print(line, flush=True)
    finally:
        connection.stop()
    return 0


def message_line(topic: str, payload: bytes, retained: bool, *, as_json: bool) -> str | None:
    """Return the line for a message; None if it is empty or not a message of the contract."""
    address = parse(topic)
    if address is None or address.kind not in READERS or not payload:
        return None
    try:
        message = READERS[address.kind](payload)
    except Rejected as rejection:
        return (
            json.dumps({"topic": topic, "rejected": str(rejection)}) if as_json else f"{topic}  {rejection}"
        )
    if as_json:
        return json.dumps(
            {"topic": topic, "retained": retained, "message": message.model_dump(mode="json")},
            ensure_ascii=False,
        )
    return f"{address.kind:<8}{_where(address):<28}{_words(message)}{'  (retained)' if retained else ''}"


READERS: dict[str, Callable[[bytes], BaseModel]] = {
    "release": lambda payload: decode(Release, payload),
    "status": lambda payload: decode(Status, payload),
    "ledger": lambda payload: decode(LedgerState, payload),
    "noise": lambda payload: decode(Signed[NoiseSetting], payload).message,
    "policy": lambda payload: decode(Signed[Policy], payload).message,
}


def _loss(account: Account) -> str:
    undecided = "" if account.undecided is None else f" ({account.undecided:.4f} undecided)"
    return f"{account.loss:.4f} of {account.budget:g}{undecided}"


def _where(address: Address) -> str:
    parts = (address.device, address.stream, address.window, address.scope)
    return "/".join(part for part in parts if part) or address.cohort


def _when(message: Release) -> str:
    """When a window was, or its ticks where it states no time."""
    if message.start is None or message.end is None:
        return f"{message.first}…{message.last}"
    start, end = (
        text.removesuffix("Z").removesuffix(".000").replace("T", " ") for text in (message.start, message.end)
    )
    return f"{start} – {end if start[:10] != end[:10] else end[11:]} UTC"


def _smoothed(message: Release) -> str:
    """The smoothed frequencies of the states that it makes most frequent; nothing where a release has none."""
    if message.smoothed is None or message.smoothed_intervals is None:
        return ""
    found = list(zip(message.smoothed, message.states, message.smoothed_intervals, strict=True))
    if len(found) > SHOWN:
        found = sorted(found, reverse=True)[:SHOWN]
    return "; smoothed " + ", ".join(
        f"{state} {frequency:.4f} in {low:.4f}–{high:.4f}" for frequency, state, (low, high) in found
    )


def _words(message: BaseModel) -> str:
    match message:
        case Release():
            found = list(zip(message.frequencies, message.states, message.standard_errors, strict=True))
            if len(found) > SHOWN:
                found = sorted(found, reverse=True)[:SHOWN]
            bins = ", ".join(f"{state} {frequency:.4f} ± {error:.4f}" for frequency, state, error in found)
            rest = len(message.states) - len(found)
            more = f" and {rest} rarer" if rest else ""
            return (
                f"{_when(message)}: {bins}{more}{_smoothed(message)}{answers_in_words(message)}; "
                f"loss {message.loss:.4f} of {message.budget:g} about any one instant"
            )
        case Status():
            refused = [message.refused, *(one.refused for one in message.streams.values())]
            reasons = ", ".join(sorted({str(one.reason) for one in refused if one is not None}))
            counts = "; ".join(
                f"{name} noise {one.noise or 'none'}, {one.buffered} waiting, {one.dropped} dropped"
                for name, one in message.streams.items()
            )
            state = {True: "online", False: "offline", None: "presence hidden"}[message.online]
            return f"{state}, policy {message.policy or 'none'}; {counts}{f'; refuses: {reasons}' if reasons else ''}"
        case LedgerState():
            stopped = f"; STOPPED: {message.stopped}" if message.stopped else ""
            broken = "".join(f"; {sentence}" for sentence in message.broken_promises())
            return (
                f"about any one instant, for ever: operator {_loss(message.operator)}, public {_loss(message.public)}, "
                f"{message.entries} entries{stopped}{broken}"
            )
        case NoiseSetting():
            return f"version {message.version} for policy {message.policy}: {message.noise.noise.in_words()}"
        case Policy():
            return f"version {message.version}: {', '.join(message.streams)}"
    return ""
