"""`hushmq ledger reconcile`: charge what a ledger restored from an old backup has lost, as ops sign it.

In one step where the key of ops is at hand; else in three: write the statement, sign it where the key is, apply it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine

from hushmq.broker.commands.policy_file import check_policy, read_policy, read_signed
from hushmq.broker.contract.messages import decode, encode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.reconciliation import Reconciliation
from hushmq.broker.contract.signature import PrivateKey, Signed
from hushmq.calibrator.calibrator_config import Config
from hushmq.calibrator.fleet_config import load
from hushmq.calibrator.ledger.begun_epoch import BegunEpoch
from hushmq.calibrator.ledger.high_water_mark import HighWaterMark, mark_of, read_marks, write_marks
from hushmq.calibrator.ledger.ledger_report import stored_policy
from hushmq.calibrator.ledger.lost_entries import lost_stretch
from hushmq.calibrator.ledger.reconcile_ledger import reconcile, unreached
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store.open_database import check_exists, open_store, plain_engine


def run(args: argparse.Namespace) -> int:
    """Make, sign or apply a statement; what is asked follows from what is given."""
    if args.config is None:
        return _sign(args)
    config = load(args.config, args.cohort)
    given = [_policy(path) for path in args.policy]
    with _opened(config) as engine, engine.begin() as db:
        policy, marks = _stopped(db, config)
        if args.statement is not None:
            payload = _read(args.statement)
        else:
            message = _made(db, config, marks, given, args)
            if not args.json:
                print("\n".join(_words(message, policy)))
            if args.out is not None:
                _write(args.out, message.model_dump_json().encode())
            if args.key is None:
                if args.json:
                    print(message.model_dump_json())
                return 0
            if not args.yes and not _agreed():
                return 1
            payload = encode(PrivateKey.load(args.key).sign(message))
        begun = reconcile(
            db,
            payload,
            cohort=config.cohort,
            policy=policy,
            marks=marks,
            ops_keys=config.keys.trusted,
            now=time.time(),
            given=given,
        )
        after = {one.stream: mark_of(db, one.stream) for one in begun}
    # Where this is not reached, the calibrator brings the file up to date: its marks count as charged.
    path = _mark_path(config)
    write_marks(path, read_marks(path) | after)
    _say(begun, as_json=args.json)
    return 0


@contextmanager
def _opened(config: Config) -> Iterator[Engine]:
    check_exists(plain_engine(config.database))
    engine = open_store(config.database)
    try:
        yield engine
    finally:
        engine.dispose()


def _mark_path(config: Config) -> Path:
    if config.mark_path is None:
        raise Problem(
            "mark_file: missing; give one, and start the calibrator once: it writes there what was charged"
        )
    return config.mark_path


def _stopped(db: Connection, config: Config) -> tuple[Policy, dict[str, HighWaterMark]]:
    """The policy followed, and the marks that ledgers do not reach; Problem where there are none."""
    marks = unreached(db, read_marks(_mark_path(config)), config.keys.trusted)
    if not marks:
        raise Problem(
            f"mark_file: every ledger reaches its mark in {config.mark_path}: nothing is to be charged. "
            "If only the broker remembers a newer one, start the calibrator once: it writes the mark there"
        )
    policy = stored_policy(db)
    if policy is None:
        raise Problem("the database has followed no policy: start the calibrator once, so that it takes it")
    return policy, marks


def _made(
    db: Connection,
    config: Config,
    marks: dict[str, HighWaterMark],
    given: Sequence[Policy],
    args: argparse.Namespace,
) -> Reconciliation:
    if args.stream is not None and args.stream not in marks:
        raise Problem(f"--stream: {args.stream!r} is not stopped; {', '.join(sorted(marks))} is")
    wanted = [args.stream] if args.stream is not None else sorted(marks)
    now = time.time()
    return Reconciliation(
        cohort=config.cohort,
        streams={
            stream: lost_stretch(db, stream, marks[stream], now=now, given=given, settings=args.settings)
            for stream in wanted
        },
    )


def _sign(args: argparse.Namespace) -> int:
    """Sign a statement where the key of ops is; nothing else is needed there."""
    for option, value in (("--statement", args.statement), ("--key", args.key), ("--out", args.out)):
        if value is None:
            raise Problem(f"{option}: missing; give --config, or --statement, --key and --out to sign one")
    try:
        message = decode(Reconciliation, _read(args.statement))
    except Rejected as rejected:
        raise Problem(f"--statement: {args.statement} is no statement to sign: {rejected}") from None
    signed = PrivateKey.load(args.key).sign(message)
    _write(args.out, encode(signed))
    if args.json:
        print(json.dumps({"key": signed.key, "file": str(args.out)}))
    else:
        print("\n".join(_words(message, None)))
        print(f"{args.out}: signed with {signed.key}")
    return 0


def _policy(path: Path) -> Policy:
    tree = read_policy(path)
    signed: Signed[Policy] | None = read_signed(tree, path)
    return signed.message if signed is not None else check_policy(tree, path, version=tree.get("version", 1))


def _words(message: Reconciliation, policy: Policy | None) -> Iterator[str]:
    for stream, lost in message.streams.items():
        yield (
            f"{stream}: the ledger has {lost.after} entries and has had {lost.entries}; every tick from {lost.first} "
            f"up to now is charged {lost.public / NANO:g} to the public and {lost.operator / NANO:g} to the operator"
        )
        if policy is not None:
            yield (
                "  open windows are closed without a result, what was learned is dropped, and a new epoch begins; "
                "the old one states what it may have lost"
            )


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise Problem("--yes: standard input is not a terminal to ask for confirmation: give --yes")
    return input("charge this? [y/N] ").strip().lower() in {"y", "yes"}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes().strip()
    except OSError as error:
        raise Problem(f"--statement: {path}: {error.strerror}") from None


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content + b"\n")
    except OSError as error:
        raise Problem(f"--out: {path}: {error.strerror}") from None


def _say(begun: Sequence[BegunEpoch], *, as_json: bool) -> None:
    if as_json:
        shown = {one.stream: {"epoch": one.epoch.number, "first": one.epoch.first} for one in begun}
        print(json.dumps({"reconciled": shown}))
        return
    for one in begun:
        print(f"{one.stream}: charged; epoch {one.epoch.number} begins at tick {one.epoch.first}")
