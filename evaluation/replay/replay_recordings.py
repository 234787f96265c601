"""The heart-rate recordings N1–N11 replayed as a cohort: real agents, a real broker and the real calibrator.

`python -m hushmq.evaluation.replay.replay_recordings` writes every recording to a file, one beat a line, and starts a
NATS server, one agent for each (source `file` with `replay`, one line a tick), and a calibrator, as processes. The
policy is `hushmq plan`'s, from the recordings of a pilot, and pushed with `hushmq push`: once for releases of the
cohort at ε = 4 and 2, once for those of each device at 8 and 5. A listener with the rights of ops records all
messages; at the end the releases are compared with the recordings, and docs/replay.md and its picture are written. The
noise is not seeded, so runs differ. It takes a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hushmq.agent.stream import phase_of
from hushmq.broker.contract.messages import Batch, LedgerState, NoiseSetting, Release, decode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.packing import unpack
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import Signed
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from hushmq.evaluation.replay.replay_site import (
    ASKED,
    COHORT,
    DATA,
    LARGER,
    STREAM,
    ReplayPlan,
    Sleeper,
    States,
    command_output,
    planned,
    push_policy,
    read,
    replay_broker,
    write_agent,
    write_calibrator,
)
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.setup.child_processes import ChildProcesses

PATIENCE_S = 60.0
MOST_LINES = 30_000
"""The largest number of lines that a device may skip before it has its first noise setting."""
ALIGNED = 8_000
"""So many states of a device are compared with its recording, to find where it began."""


@dataclass(slots=True)
class ReceivedMessages:
    """The messages received during the replay."""

    first: dict[str, int] = field(default_factory=dict)
    """By device, its first tick: the first line of its recording."""
    last: dict[str, int] = field(default_factory=dict)
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    settings: dict[int, NoiseSetting] = field(default_factory=dict)
    releases: dict[tuple[str, int], Release] = field(default_factory=dict)
    """By scope and first tick."""
    stopped: str | None = None
    """Why the calibrator has stopped releasing, if it has."""


class Listener:
    """A connection with the rights of ops that records the messages of all topics."""

    def __init__(self, server: NatsServer) -> None:
        self.received = ReceivedMessages()
        self._lock = threading.Lock()
        topics = Topics(COHORT)
        self._connection = Connection(
            endpoints=[server.endpoint("ops")],
            client_id="ears",
            subscriptions=[topics.all(kind) for kind in ("z", "release", "noise", "ledger")],
            on_message=self._on_message,
            keep_session=False,
            log=logger("error"),
        )

    def __enter__(self) -> Listener:
        self._connection.start()
        if not self._connection.wait_connected(10):
            raise Problem(f"the broker does not answer: {self._connection.last_error}")
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.stop()

    def _on_message(self, topic: str, payload: bytes, _retained: bool) -> None:
        address = parse(topic)
        received = self.received
        with self._lock:
            match address.kind if address else None:
                case "z" if address and address.device:
                    batch = decode(Batch, payload)
                    known = received.first.get(address.device, batch.first)
                    received.first[address.device] = min(known, batch.first)
                    received.last[address.device] = max(received.last.get(address.device, 0), batch.last)
                    received.batches.setdefault(address.device, []).append(batch)
                case "noise":
                    setting = decode(Signed[NoiseSetting], payload).message
                    received.settings[setting.version] = setting
                case "release":
                    release = decode(Release, payload)
                    received.releases[release.scope, release.first] = release
                case "ledger":
                    received.stopped = decode(LedgerState, payload).stopped


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """All that the report is made from."""

    plan: ReplayPlan
    sleepers: Sequence[Sleeper]
    received: ReceivedMessages
    ledger: dict[str, Any]
    """The output of `hushmq ledger show --json` for the stream."""
    verified: bool
    lines: dict[str, int] = field(default_factory=dict)
    """By device, the line of its recording at its first tick; earlier lines were skipped while it had no setting."""

    def __post_init__(self) -> None:
        """Determines these lines: the offset at which the true states explain the sanitized ones best."""
        for sleeper in self.sleepers:
            self.lines[sleeper.name] = self._first_line(sleeper)

    def _first_line(self, sleeper: Sleeper) -> int:
        """The most likely one: with much noise, a stretch of one state agrees as often as the truth."""
        batches = sorted(self.received.batches[sleeper.name], key=lambda one: one.first)
        start, stride = batches[0].first, self.stride
        scores, compared = np.zeros(MOST_LINES), 0
        for batch in batches:
            if compared >= ALIGNED:
                break
            sent = np.frombuffer(unpack(batch.states, batch.count), dtype=np.uint8)
            begin, end = (batch.first - start) * stride, (batch.last + 1 - start) * stride
            true = sleeper.truth(begin, end + MOST_LINES - 1)
            shifted = np.lib.stride_tricks.sliding_window_view(true, MOST_LINES)[: end - begin]
            noise = self.noise(batch.noise)
            for_0 = np.log(np.where(sent == 0, 1 - noise.rho0, noise.rho0))
            for_1 = np.log(np.where(sent == 1, 1 - noise.rho1, noise.rho1))
            scores += for_0.sum() + (for_1 - for_0) @ shifted[phase_of(sleeper.name, stride) :: stride]
            compared += batch.count
        return int(scores.argmax())

    def noise(self, version: int) -> BinaryNoise:
        return binary_noise_of(self.received.settings[version].noise)

    @property
    def stride(self) -> int:
        """Of so many beats one is published; batches and releases number strides."""
        return next((one.stride for one in self.received.releases.values()), 1)

    def truth(self, sleeper: Sleeper, first: int, last: int) -> States:
        """The true states of all beats of the strides first … last that the device has sent."""
        start, end = self.received.first[sleeper.name], self.received.last[sleeper.name]
        low, high = max(first, start), min(last, end)
        if low > high:
            return np.zeros(0, dtype=np.uint8)
        line = self.lines[sleeper.name] - start * self.stride
        return sleeper.truth(low * self.stride + line, (high + 1) * self.stride - 1 + line)

    def published(self, sleeper: Sleeper, first: int, last: int) -> States:
        """Of these the beats that were published."""
        return self.truth(sleeper, first, last)[phase_of(sleeper.name, self.stride) :: self.stride]


def run_replay(sleepers: Sequence[Sleeper], plan: ReplayPlan, report: Callable[[str], None]) -> ReplayResult:
    """Starts all processes, pushes the policy, waits for the last window and stops all processes."""
    with tempfile.TemporaryDirectory() as name, replay_broker(Path(name), sleepers) as (server, keys):
        folder = Path(name)
        stage = ChildProcesses()
        with Listener(server) as ears:
            try:
                config = write_calibrator(folder, server, keys)
                stage.add(
                    "calibrator", ["calibrator", "run", "--config", str(config)], folder / "calibrator.log"
                )
                for sleeper in sleepers:
                    agent = write_agent(folder, server, keys, sleeper, plan)
                    stage.add(
                        sleeper.name, ["agent", "run", "--config", str(agent)], folder / f"{sleeper.name}.log"
                    )
                push_policy(folder, server, plan, devices=len(sleepers))
                _wait_for_the_last_window(stage, ears.received, plan, len(sleepers), report)
            finally:
                stage.stop(patience=10.0)
        ledger = json.loads(command_output("ledger", "show", "--config", str(config), "--json"))
        verified = json.loads(command_output("ledger", "verify", "--config", str(config), "--json"))
        return ReplayResult(plan, sleepers, ears.received, ledger[STREAM], verified["right"])


def _wait_for_the_last_window(
    stage: ChildProcesses,
    received: ReceivedMessages,
    plan: ReplayPlan,
    devices: int,
    report: Callable[[str], None],
) -> None:
    """Waits until all ticks have been replayed and the last complete window is released, or releases have stopped."""
    deadline = time.monotonic() + plan.ticks * plan.period_ms / 1000 + PATIENCE_S
    while time.monotonic() < deadline:
        stage.restart_ended()
        time.sleep(1.0)
        begun = len(received.first) == devices and max(received.first.values())
        stride = next((one.stride for one in list(received.releases.values())), 1)
        result = (max(received.last.values(), default=0) - begun) * stride if begun else 0
        released = [first * stride for scope, first in list(received.releases) if scope == "cohort"]
        report(
            f"{max(0, result):,} of {plan.ticks:,} ticks, {len(released)} windows, {len(received.settings)} settings"
        )
        if received.stopped is not None:
            return
        if begun and released:
            end = (begun * stride + plan.ticks) // plan.window * plan.window
            if max(released) + plan.window >= end:
                return
    raise Problem(f"the last window was not released in time; heard {len(received.releases)} releases")


def agreement(result: ReplayResult, sleeper: Sleeper) -> tuple[float, float]:
    """The observed and the expected share of equal sanitized and true states: a check of the alignment."""
    equal = expected = total = 0.0
    for batch in result.received.batches[sleeper.name]:
        sent = np.frombuffer(unpack(batch.states, batch.count), dtype=np.uint8)
        true = result.published(sleeper, batch.first, batch.last)
        noise = result.noise(batch.noise)
        equal += float((sent == true).sum())
        expected += float(np.where(true == 1, 1 - noise.rho1, 1 - noise.rho0).sum())
        total += batch.count
    return equal / total, expected / total


def _progress_reporter() -> Callable[[str], None]:
    """A progress reporter: in place on a terminal, otherwise a line every ten seconds."""
    printed_at = -10.0

    def report(text: str) -> None:
        nonlocal printed_at
        if sys.stderr.isatty():
            print(f"\r{text}  ", end="", file=sys.stderr)
        elif time.monotonic() - printed_at >= 10:
            printed_at = time.monotonic()
            print(text, file=sys.stderr)

    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Runs both replays and writes the page."""
    from hushmq.evaluation.replay.pilot_coverage import coverage_table  # noqa: PLC0415  # as the next one
    from hushmq.evaluation.replay.replay_page import write  # noqa: PLC0415  # it reads from this module, and draws

    parser = argparse.ArgumentParser(
        prog="python -m hushmq.evaluation.replay.replay_recordings", description=__doc__
    )
    parser.add_argument("--data", type=Path, default=DATA, help="the recordings")
    parser.add_argument("--ticks", type=int, default=72_000, help="beats of each (default 72000)")
    parser.add_argument("--period-ms", type=int, default=3, help="of one beat (default 3)")
    parser.add_argument("--window", type=int, default=2_000, help="beats in a window (default 2000)")
    parser.add_argument("--page", type=Path, default=Path("docs/replay.md"), help="default docs/replay.md")
    args = parser.parse_args(argv)
    said: dict[str, list[str]] = {}
    results = []
    try:
        sleepers = read(args.data)
        for name, epsilons in (("cohort", ASKED), ("device", LARGER)):
            with tempfile.TemporaryDirectory() as folder:
                stream, said[name] = planned(
                    Path(folder),
                    sleepers,
                    args.window,
                    epsilons,
                    per_device=name == "device",
                    period_ms=args.period_ms,
                )
            plan = ReplayPlan(stream, args.ticks, args.window)
            results.append(run_replay(sleepers, plan, _progress_reporter()))
        table = coverage_table(sleepers, args.window)
    except Problem as problem:
        print(f"replay: {problem}", file=sys.stderr)
        return 2
    of_cohort, by_devices = results
    write(by_devices, of_cohort, said, table, args.page)
    print(f"{args.page}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
