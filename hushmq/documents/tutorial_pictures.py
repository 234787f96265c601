"""The pictures of releases at the end of the tutorials: simulated devices over days that pass in seconds.

Each tutorial's own command makes the site; states come from a chain in the middle of the policy's floor, noise from the
agent's mechanism, and releases from the calibrator, on a clock that is set by hand. `hushmq releases plot` draws them.
Noise is drawn anew each time, so that no two runs give the same picture: `make tutorials` writes them.
"""

from __future__ import annotations

import io
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hushmq.__main__ import main as hushmq
from hushmq.agent.perturb import Mechanism
from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import BinaryThetaMessage
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store.open_database import open_store, sqlite_url
from hushmq.setup.household import Household

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
BEGINS = 1_767_225_600
"""2026-01-01, 00:00 UTC: when the simulated days begin."""


@dataclass(frozen=True, slots=True)
class Tutorial:
    """A tutorial: its page and picture, the options of its `hushmq init`, and what is simulated for its picture."""

    name: str
    init: str
    devices: int
    window: str
    windows: int
    """How many of them pass."""

    @property
    def command(self) -> str:
        return f"hushmq init {self.init}"


TUTORIALS = (
    Tutorial("wearable", "home --yes", 4, "minute", 40),
    Tutorial(
        "room-sensor",
        "rooms --stream occupancy --states empty,occupied --lasting 40min,20min --period 5min --threshold none "
        "--window day=24h --window week=7d --yes",
        5,
        "week",
        16,
    ),
    Tutorial(
        "power-meter",
        "house --stream power --states idle,busy --lasting 50min,10min --period 2min --threshold 300 "
        "--window day=24h --epsilon 6 --yes",
        1,
        "day",
        60,
    ),
    Tutorial(
        "fleet",
        "fleet --stream motion --states still,moving --lasting 20min,5min --period 1min --window day=24h "
        "--epsilon 2 --yes",
        60,
        "day",
        12,
    ),
)


class SimulatedDays:
    """A site's calibrator, and devices that send what they would, a window at a time."""

    def __init__(self, home: Household, devices: int) -> None:
        self._policy: Policy = home.policy()
        ((self._stream, self._rules),) = self._policy.streams.items()
        self._now = float(BEGINS)
        self._random = random.Random(14)  # noqa: S311  # states of simulated people, no noise
        self._states = dict.fromkeys((f"device-{n}" for n in range(1, devices + 1)), 0)
        database = home.path / "calibrator"
        database.mkdir(mode=0o700, exist_ok=True)
        ops = PrivateKey.load(home.ops_key)
        self._cohort = Cohort(
            open_store(sqlite_url(database / "ledger.db")),
            cohort=home.cohort,
            key=PrivateKey.load(home.path / "calibrator.key"),
            ops_keys=[ops.public],
            grace_s=20.0,
            clock=lambda: self._now,
            log=logger("error", "json", io.StringIO()),
            roster=RosterSection(admit_least=devices),
        )
        payload = encode(ops.sign(self._policy))
        self._cohort.receive([Arrived(self._cohort.topics.policy, payload)])
        self._tick = self._cohort_tick()

    def pass_window(self, window: str) -> None:
        """Let one window pass: every device sends its ticks, and what is due is closed."""
        setting = self._cohort.calibrate().get(self._stream)
        if setting is None:
            raise Problem(f"{self._stream}: no noise keeps its budget")
        mechanism, count = Mechanism(setting.message), self._rules.strides_of(self._rules.windows[window])
        arrived = [
            Arrived(self._cohort.topics.batch(device, self._stream), one.payload)
            for device in self._states
            for one in mechanism.batches(self._stream, self._tick, self._walk(device, count), None)
        ]
        self._tick += count
        self._now = self._tick * self._rules.stride_ms / 1000 + 21.0
        self._cohort.receive(arrived)
        self._cohort.close_due()
        self._cohort.calibrate_devices()

    def _cohort_tick(self) -> int:
        """The first tick of the next window of all lengths."""
        longest = max(map(self._rules.strides_of, self._rules.windows.values()))
        now = int(self._now * 1000) // self._rules.stride_ms
        return (now // longest + 1) * longest

    def _walk(self, device: str, count: int) -> list[int]:
        """The states of so many strides."""
        leave = _middle(self._rules)
        found, state = [], self._states[device]
        for _ in range(count):
            found.append(state)
            for _ in range(self._rules.stride):
                state ^= self._random.random() < leave[state]
        self._states[device] = state
        return found


def _middle(rules: StreamPolicy) -> tuple[float, float]:
    """How often each of two states is left, in the middle of the floor."""
    floor = rules.theta.floor
    if not isinstance(floor, BinaryThetaMessage):
        raise Problem("a tutorial's stream has two states")
    return (floor.q.low + floor.q.high) / 2, (floor.r.low + floor.r.high) / 2


def simulate(tutorial: Tutorial, folder: Path, windows: int | None = None) -> Path:
    """Make the tutorial's site in a folder, let its windows pass, and return the site."""
    name, *options = tutorial.init.split()
    site = folder / name
    if hushmq(["init", str(site), *options]):
        raise Problem(f"{tutorial.command}: it failed")
    days = SimulatedDays(Household.open(site), tutorial.devices)
    for _ in range(windows or tutorial.windows):
        days.pass_window(tutorial.window)
    return site


def main() -> int:
    """Draw the picture of every tutorial, or of those named."""
    wanted = [one for one in TUTORIALS if one.name in (sys.argv[1:] or one.name)]
    for one in wanted:
        with tempfile.TemporaryDirectory() as folder:
            site = simulate(one, Path(folder))
            picture = FOLDER / f"{one.name}.svg"
            code = hushmq(["releases", "plot", str(site), "--window", one.window, "--output", str(picture)])
            if code:
                return code
        print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
