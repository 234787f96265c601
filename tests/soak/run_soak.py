"""A site under faults for minutes: `python -m tests.soak.run_soak`; `make soak` runs it on all combinations.

A fault is made every ten seconds. Afterwards everything runs for a while without, is stopped in order, and is judged by
what must hold: nobody ended unasked, no tick has two noises and no window two results, what every device sampled was
counted or counted as dropped, all devices follow the newest policy, and both checkers accept the ledger.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from hushmq.calibrator.calibrator_config import load
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import plain_engine
from tests.soak.soak_faults import Faults
from tests.soak.soak_site import APART, Plan, SoakSite

PATIENCE_S = 240.0
"""How long everything may take to be as it should, after the last fault."""


@dataclass(slots=True)
class Record:
    """What happened, second by second, and the verdict."""

    plan: dict[str, Any]
    name: str
    series: list[tuple[float, int, int, int]] = field(default_factory=list)
    """Seconds since the start; ticks sampled, waiting and dropped, by the devices' last statuses."""
    faults: list[tuple[float, str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)


def soak(plan: Plan, folder: Path, *, say: Callable[[str], None] = print) -> Record:
    """Run the plan in an empty folder."""
    record = Record(asdict(plan), plan.name)
    site = SoakSite(plan, folder)
    try:
        faults = Faults(site)
        began = time.monotonic()
        _wait(site, record, began, lambda: _all_follow(site, began), "a first setting on every device")
        next_fault = time.monotonic()
        until = next_fault + plan.seconds
        while time.monotonic() < until:
            if time.monotonic() >= next_fault:
                at = time.monotonic() - began
                kind = faults.next()
                record.faults.append((round(at, 1), kind))
                say(f"{plan.name}: {at:5.0f} s: {kind}")
                next_fault = max(next_fault + plan.every_s, time.monotonic())
            _note(site, record, began)
            site.watch_over()
            time.sleep(0.5)
        quiet = time.monotonic()
        _wait(site, record, began, lambda: _all_follow(site, quiet), "every device follows the newest policy")
        record.numbers["seconds until all follow"] = round(time.monotonic() - quiet, 1)
        _wait(site, record, began, lambda: _little_waits(site, quiet), "what waited is counted")
        record.numbers["seconds until what waited is counted"] = round(time.monotonic() - quiet, 1)
        _stop(site, record)
        _judge(site, faults, record)
    finally:
        site.close()
    return record


def _note(site: SoakSite, record: Record, began: float) -> None:
    record.series.append((round(time.monotonic() - began, 1), *site.observer.totals()))


def _wait(site: SoakSite, record: Record, began: float, condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            record.wrong.append(f"after {PATIENCE_S:g} s not reached: {what}")
            return
        _note(site, record, began)
        site.watch_over()
        time.sleep(0.5)


def _all_follow(site: SoakSite, since: float) -> bool:
    found = site.observer.news_of(since)
    return all(
        (status := found.get(name)) is not None
        and status.online
        and status.policy == site.version
        and all(stream.noise is not None for stream in status.streams.values())
        for name in site.names
        if name not in APART
    )


def _little_waits(site: SoakSite, since: float) -> bool:
    """No device has more than ten seconds of ticks that are not counted."""
    found = site.observer.news_of(since)
    return all(
        name in found and all(stream.buffered <= 100 for stream in found[name].streams.values())
        for name in site.names
        if name not in APART
    )


def _stop(site: SoakSite, record: Record) -> None:
    """Stop the devices, wait until what they sent is counted, stop the calibrator."""
    for config in sorted(site.nursery.running):
        site.asked.add(config)
        site.nursery.send(config, signal.SIGTERM)
    deadline = time.monotonic() + 60
    while site.nursery.running and time.monotonic() < deadline:
        time.sleep(0.1)
    for config, code in site.nursery.ended:
        if code not in {0, -signal.SIGKILL}:
            record.wrong.append(f"{config.parent.name} ended with exit code {code}")
    counted, deadline = -1, time.monotonic() + 60
    while (now := _count(site)[0]) != counted and time.monotonic() < deadline:
        counted = now
        time.sleep(3)
    while len(site.calibrators) > 1:
        site.end_calibrator()
    site.end_calibrator(signal.SIGTERM)


def _count(site: SoakSite) -> tuple[int, dict[tuple[str, str], int], dict[str, int]]:
    engine = plain_engine(load(site.calibrator_toml, {}).database)
    try:
        with engine.connect() as db:
            rows = db.execute(select(store.tally.c.device, store.tally.c.stream, store.tally.c.counted)).all()
            numbers = {
                "windows released": db.execute(select(func.count()).select_from(store.release)).scalar_one(),
                "releases of devices added up": db.execute(
                    select(func.count()).select_from(store.aggregate)
                ).scalar_one(),
                "entries of the ledger": db.execute(
                    select(func.count()).select_from(store.ledger)
                ).scalar_one(),
                "noise settings": db.execute(select(func.count()).select_from(store.setting)).scalar_one(),
                "settings of single devices": db.execute(
                    select(func.count()).select_from(store.setting).where(store.setting.c.device.is_not(None))
                ).scalar_one(),
                "epochs": db.execute(select(func.count()).select_from(store.epoch)).scalar_one(),
            }
    finally:
        engine.dispose()
    by_stream = {(row.device, row.stream): int(row.counted) for row in rows}
    return sum(by_stream.values()), by_stream, numbers


def _judge(site: SoakSite, faults: Faults, record: Record) -> None:
    memory, wrong = faults.memory, record.wrong
    wrong += site.crashed
    wrong += site.observer.broken(APART)
    total, counted, numbers = _count(site)
    sampled, waiting, dropped = site.observer.totals()
    _balance(site, faults, counted, record)
    for config in (*site.configs.values(), site.calibrator_toml):
        log = config.parent / "log"
        if log.exists() and "Traceback" in log.read_text(errors="replace"):
            wrong.append(f"{config.parent.name}: a traceback in its log")
    calibrator = str(site.calibrator_toml)
    bundle = site.folder / "export.json"
    for arguments in (
        ("ledger", "verify", "--config", calibrator),
        ("ledger", "export", "--config", calibrator, "--format", "bundle"),
        ("verify", str(bundle)),
    ):
        answer = site.hushmq(*arguments)
        if arguments[1] == "export":
            bundle.write_text(answer.stdout)
        said = (answer.stdout + answer.stderr).strip()
        # What cannot be proved of an adversary whom the policy does not name is no broken promise.
        fails = [line for line in said.splitlines() if not line.startswith(("holds", "not proven"))]
        if answer.returncode and (
            arguments[0] != "verify" or any(line.startswith("FAILS") for line in fails)
        ):
            wrong.append(f"hushmq {' '.join(arguments[:2])}: {chr(10).join(fails)[-600:]}")
    events = Counter(
        json.loads(line)["event"]
        for line in (site.calibrator_toml.parent / "log").read_text(errors="replace").splitlines()
        if line.startswith("{")
    )
    record.numbers |= {
        "devices": len(site.names),
        "faults": len(record.faults),
        "policies": site.version,
        "ticks sampled": sampled,
        "ticks counted": total,
        "ticks waiting at the end": waiting,
        "ticks dropped": dropped,
        "databases restored": memory.restored,
        "ledgers reconciled": memory.reconciled,
        "device folders restored or damaged": len(memory.aged),
        "messages that could not be read": site.observer.heard["garbage"],
        "storage away": events["storage_away"],
        "quarantined": events["quarantined"],
    } | numbers


def _balance(site: SoakSite, faults: Faults, counted: dict[tuple[str, str], int], record: Record) -> None:
    """What a device sampled is counted, waits or was dropped; less is counted where the database came back older."""
    memory = faults.memory
    for name in site.names:
        status = site.observer.statuses.get(name)
        if name in APART or name in memory.aged or status is None:
            continue
        for stream, one in status.streams.items():
            settled = one.sampled - one.buffered - one.dropped
            found = counted.get((name, stream), 0)
            # What the last status says waits may have been counted since.
            if found > one.sampled or (
                not memory.restored and not settled <= found <= settled + one.buffered
            ):
                record.wrong.append(
                    f"{name}: {stream}: {one.sampled} sampled, {one.buffered} wait, {one.dropped} dropped, "
                    f"{found} counted"
                )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--broker", choices=("nats", "mosquitto"), default="nats")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--devices", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between faults")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--out", type=Path, default=Path("build/soak"), help="where records are written")
    args = parser.parse_args()
    plan = Plan(args.broker, args.database, args.devices, args.seconds, args.every, args.seed)
    folder = Path(tempfile.mkdtemp(prefix="hushmq-soak-"))
    record = soak(plan, folder, say=lambda line: print(line, flush=True))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / f"{plan.broker}-{plan.database}.json").write_text(json.dumps(asdict(record)))
    for name, value in record.numbers.items():
        print(f"{name:40} {value:>12,}")
    for what in record.wrong:
        print(f"WRONG: {what}")
    if not record.wrong:
        shutil.rmtree(folder)
    print(f"{plan.name}: {'all promises held' if not record.wrong else f'see {folder}'}, seed {plan.seed}")
    return bool(record.wrong)


if __name__ == "__main__":
    raise SystemExit(main())
