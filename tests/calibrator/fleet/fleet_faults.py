"""`make fleet`: many cohorts on a few workers, a NATS cluster of three and PostgreSQL, and one fault after another.

Everything runs as processes of this machine; devices are played (played_devices.py). Each fault is made under load;
then all cohorts must be claimed again, all that was sampled must be seen, and for every cohort: what was sampled is
counted once, every window has one payload and one debit, and the ledger verifies. What was measured is printed as JSON
lines. With `--soak-s` the faults come at random, one every `--every-s`, and a record is written for
tests/soak/soak_figure.py.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path

from tests.calibrator.fleet.big_fleet import BigFleet, FleetPlan, cpu_s, resident_mb
from tests.calibrator.fleet.cut_off import cut
from tests.small_disk import SmallDisk

FAULTS = ("kill", "stop", "node", "roll", "database", "cut", "disk")
STOPPED_S = 30.0
ROLL_S = 10.0
"""Between two nodes of a cluster."""
NAMES = {"nats": "NATS", "mosquitto": "Mosquitto"}


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


class FleetFaults:
    """The faults. Each is made while devices send, and returns what was measured once all is claimed again."""

    def __init__(
        self, fleet: BigFleet, *, play_s: float, stopped_s: float = STOPPED_S, wait: bool = True
    ) -> None:
        """`wait`: whether a fault is over only when all workers have their shares again."""
        self.fleet, self._play_s, self._stopped_s, self._wait = fleet, play_s, stopped_s, wait
        self.kinds: dict[str, tuple[str, Callable[[], dict[str, float]]]] = {
            "kill": ("worker: kill -9", self._kill),
            "stop": (f"worker: SIGSTOP for {stopped_s:g} s", self._stop),
            "node": ("broker: kill -9 of a node, started again", self._node),
            "roll": ("brokers, then workers, stopped and started one after another", self._roll),
            "database": ("database: kill -9 of PostgreSQL, started again after 5 s", self._database),
            "cut": ("worker: cut off from the database for 20 s", self._cut),
            "disk": ("disk of the marks full for 15 s", self._disk),
        }

    def _kill(self) -> dict[str, float]:
        fleet, number = self.fleet, random.choice(self._plain())
        fleet.workers[number].kill()
        fleet.workers.pop(number).wait()
        took = fleet.until(lambda: fleet.all_claimed(without=number), "takeover")
        fleet.play(self._play_s)
        fleet.start_worker(number)
        return {"claimed_after_s": took} | self._balanced()

    def _stop(self) -> dict[str, float]:
        fleet, number = self.fleet, random.choice(self._plain())
        os.kill(fleet.workers[number].pid, signal.SIGSTOP)
        took = fleet.until(lambda: fleet.all_claimed(without=number), "takeover")
        fleet.play(max(0.0, self._stopped_s - took))
        os.kill(fleet.workers[number].pid, signal.SIGCONT)
        return {"claimed_after_s": took} | self._balanced()

    def _node(self) -> dict[str, float]:
        number = random.randrange(len(self.fleet.brokers.ports))
        self.fleet.brokers.kill(number)
        self.fleet.play(self._play_s if len(self.fleet.brokers.ports) > 1 else 3.0)
        self.fleet.brokers.start(number)
        return {}

    def _roll(self) -> dict[str, float]:
        """As in an upgrade; whatever is stopped ends in good order."""
        fleet, began = self.fleet, time.monotonic()
        for number in range(len(fleet.brokers.ports)):
            fleet.brokers.terminate(number)
            fleet.brokers.start(number)
            fleet.play(ROLL_S)
        for number, child in list(fleet.workers.items()):
            child.send_signal(signal.SIGTERM)
            fleet.until(lambda child=child: child.poll() is not None, "the end of a worker")  # type: ignore[misc]
            if child.returncode:
                raise RuntimeError(f"worker-{number} ended with exit code {child.returncode}")
            fleet.start_worker(number, apart=fleet.plan.apart and number == self._last)
            fleet.until(lambda: fleet.shared_by(len(fleet.workers)), "shares")
        return {"rolled_in_s": time.monotonic() - began}

    def _database(self) -> dict[str, float]:
        self.fleet.server.kill()
        self.fleet.play(5.0)
        self.fleet.server.start()
        return {"claimed_after_s": self.fleet.until(self.fleet.all_claimed, "claims")}

    def _cut(self) -> dict[str, float]:
        last = self.fleet.plan.workers - 1
        cut(off=True)
        took = self.fleet.until(lambda: self.fleet.all_claimed(without=last), "takeover")
        self.fleet.play(max(0.0, 20.0 - took))
        cut(off=False)
        return {"claimed_after_s": took} | self._balanced()

    def _disk(self) -> dict[str, float]:
        disk = SmallDisk(self.fleet.folder / "marks")
        disk.fill()
        self.fleet.play(15.0)
        disk.make_room()
        return {"claimed_after_s": self.fleet.until(self.fleet.all_claimed, "claims")}

    def _plain(self) -> list[int]:
        """The workers that are not in a network namespace."""
        return [
            number for number in self.fleet.workers if not (self.fleet.plan.apart and number == self._last)
        ]

    @property
    def _last(self) -> int:
        return self.fleet.plan.workers - 1

    def _balanced(self) -> dict[str, float]:
        if not self._wait:
            return {}
        balanced = self.fleet.until(lambda: self.fleet.balanced(len(self.fleet.workers)), "balance")
        return {"balanced_after_s": balanced}


def one_after_another(fleet: BigFleet, names: list[str], play_s: float) -> bool:
    """Each fault in turn, each with its verdict; whether all was right."""
    faults, right = FleetFaults(fleet, play_s=play_s), True
    for name in ("none", *names):
        before = {number: cpu_s(child.pid) for number, child in fleet.workers.items()}
        began = time.monotonic()
        fleet.latencies()
        what, measured = "none", dict[str, float]()
        if name != "none":
            what, make = faults.kinds[name]
            measured = {key: round(value, 2) for key, value in make().items()}
        fleet.play(play_s)
        latencies = fleet.latencies()
        drained = fleet.drain()
        wrong = fleet.check()
        right = right and not wrong
        used = sum(cpu_s(child.pid) - before.get(number, 0.0) for number, child in fleet.workers.items())
        say(
            fault=what,
            **measured,
            **latencies,
            drained_after_s=round(drained, 1),
            seconds=round(time.monotonic() - began, 1),
            worker_cpu_s=round(used, 1),
            releases=sum(map(len, fleet.heard.values())),
            wrong=wrong[:10],
        )
    return right


def soak(fleet: BigFleet, names: list[str], seconds: float, every_s: float, out: Path) -> bool:
    """A fault every so often; at the end the verdict, and a record with the workers' memory."""
    faults = FleetFaults(fleet, play_s=2.0, stopped_s=fleet.plan.claim_s + 5.0, wait=False)
    plan = asdict(fleet.plan) | {"devices": fleet.plan.cohorts * fleet.plan.devices, "seconds": seconds}
    record: dict[str, list[object]] = {"series": [], "faults": [], "memory": []}
    began, drawn = time.monotonic(), list[str]()

    def note() -> bool:
        at = round(time.monotonic() - began, 1)
        sampled = sum(one.sampled.total() for one in fleet.devices)
        record["series"].append((at, sampled, sum(one.waiting_ticks for one in fleet.devices), 0))
        record["memory"].append((at, [round(resident_mb(one.pid)) for one in fleet.workers.values()]))
        return True

    following = time.monotonic() + every_s
    while time.monotonic() - began < seconds:
        fleet.play(1.0)
        note()
        if time.monotonic() < following:
            continue
        following = max(following + every_s, time.monotonic())
        drawn = drawn or random.sample(names, len(names))
        what, make = faults.kinds[drawn.pop()]
        at = round(time.monotonic() - began, 1)
        record["faults"].append((at, what))
        say(at=at, fault=what, **{key: round(value, 2) for key, value in make().items()})
    fleet.play(every_s)
    latencies, drained = fleet.latencies(), fleet.drain()
    note()
    wrong = fleet.check()
    name = f"{NAMES[fleet.plan.broker]}, PostgreSQL, {fleet.plan.workers} workers"
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{fleet.plan.broker}-fleet.json"
    file.write_text(json.dumps(record | {"plan": plan, "name": name, "wrong": wrong}))
    say(
        record=str(file),
        faults=len(record["faults"]),
        sampled=sum(one.sampled.total() for one in fleet.devices),
        releases=sum(map(len, fleet.heard.values())),
        memory_mb=[record["memory"][len(record["memory"]) * part // 10] for part in (1, 5)]
        + record["memory"][-1:],
        drained_after_s=round(drained, 1),
        **latencies,
        wrong=wrong[:10],
    )
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    given = FleetPlan()
    for each in fields(FleetPlan):
        if each.name != "apart":
            value = getattr(given, each.name)
            parser.add_argument(f"--{each.name.replace('_', '-')}", type=type(value), default=value)
    parser.add_argument("--play-s", type=float, default=20.0, help="seconds of load between two steps")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--soak-s", type=float, help="so many seconds with a fault every --every-s")
    parser.add_argument("--every-s", type=float, default=30.0)
    parser.add_argument(
        "--out", type=Path, default=Path("build/fleet"), help="where a soak's record is written"
    )
    args = parser.parse_args()
    names = args.faults.split(",") if args.faults else []
    plan = FleetPlan(
        **{each.name: getattr(args, each.name) for each in fields(FleetPlan) if each.name != "apart"},
        apart="cut" in names,
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hushmq-fleet-")))
        fleet = BigFleet(plan, folder, stack)
        if "disk" in names:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder / "marks"], check=True)
            stack.callback(subprocess.run, ["umount", "-l", folder / "marks"], check=False)
        began = time.monotonic()
        fleet.create()
        say(created=plan.cohorts, seconds=round(time.monotonic() - began, 1), **asdict(plan))
        say(started_after_s=round(fleet.start(), 1), cores=os.cpu_count(), load=os.getloadavg()[0])
        fleet.play(plan.window_s + plan.grace_s)
        if args.soak_s is not None:
            right = soak(fleet, names, args.soak_s, args.every_s, args.out)
        else:
            right = one_after_another(fleet, names, args.play_s)
        for child in fleet.workers.values():
            child.send_signal(signal.SIGTERM)
        codes = [child.wait(120) for child in fleet.workers.values()]
        released = {cohort for cohort, windows in fleet.heard.items() if windows}
        say(exit_codes=codes, cohorts_with_releases=len(released), seconds=round(time.monotonic() - began))
        return 0 if right and not any(codes) and len(released) == plan.cohorts else 1


if __name__ == "__main__":
    sys.exit(main())
