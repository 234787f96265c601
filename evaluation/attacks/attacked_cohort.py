"""A calibrator's cohort under attack: its database, ledger, learning and settings are real, devices and clock are not.

Every device sends each window as one batch, perturbed with the noise in force by simulated noise.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Engine

from hushmq.broker.contract.messages import Batch, NoiseSetting, encode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.packing import pack
from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.theta_message import binary_theta_of, theta_message
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.roster.roster_members import read_roster
from hushmq.evaluation.benchmarks.benchmark_cohort import OPS, TOPICS, temporary_cohort
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

START, FLOOR = BinaryTheta(0.05, 0.45, 0.05, 0.45), BinaryTheta(0.1, 0.2, 0.1, 0.2)
"""README's Θ."""
STREAM, TICKS = "motion", 20_000
BEGIN = 1_800_000_000 // TICKS * TICKS

States = NDArray[np.uint8]
Behaviour = Callable[[int, np.random.Generator], States]
"""The true states of so many ticks."""


@dataclass(slots=True)
class SimulatedTime:
    """Seconds since the epoch, moved by the attack."""

    now: float

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class AttackedCohort:
    """A cohort, and what became of it window by window: whether it was released, and who was left out of it."""

    cohort: Cohort
    engine: Engine
    clock: SimulatedTime
    rng: np.random.Generator
    released: list[bool] = field(default_factory=list)
    left_out: list[frozenset[str]] = field(default_factory=list)

    @property
    def setting(self) -> NoiseSetting:
        """The setting that a newcomer would use now."""
        return self.cohort.calibrate()[STREAM].message

    @property
    def theta(self) -> BinaryTheta:
        return binary_theta_of(self.setting.theta)

    @property
    def noise(self) -> BinaryNoise:
        return binary_noise_of(self.setting.noise)

    def window(self, devices: Mapping[str, Behaviour]) -> None:
        """These devices send the next window, and it is closed."""
        number, setting, noise = len(self.released), self.setting, self.noise
        self.cohort.calibrate_devices()
        first = BEGIN + number * TICKS
        self.clock.now = float(first + TICKS)
        batches = []
        for name, behaviour in devices.items():
            states = behaviour(TICKS, self.rng)
            flips = self.rng.random(TICKS) < np.where(states == 1, noise.rho1, noise.rho0)
            batch = Batch(
                first=first,
                after=first - 1 if number else None,
                count=TICKS,
                states=pack(bytes(states ^ flips)),
                noise=setting.version,
            )
            batches.append(Arrived(TOPICS.batch(name, STREAM), encode(batch)))
        self.cohort.receive(batches)
        before = self.cohort.released
        self.clock.now += 2.0
        self.cohort.close_due()
        self.released.append(self.cohort.released > before)
        with self.engine.connect() as db:
            out = frozenset(one.device for one in read_roster(db, STREAM) if one.left_out is not None)
        self.left_out.append(out)

    def adopt(self, message: Policy) -> None:
        """Follow another policy."""
        self.cohort.receive([Arrived(TOPICS.policy, encode(OPS.sign(message)))])

    @property
    def released_under_the_old_rule(self) -> int:
        """One device over its budget ended all releases: the windows before the first that refused or left one out."""
        troubled = (not out or bool(left) for out, left in zip(self.released, self.left_out, strict=True))
        return next((number for number, one in enumerate(troubled) if one), len(self.released))


@contextmanager
def attacked_cohort(
    policy: Policy, rng: np.random.Generator, roster: RosterSection | None = None
) -> Iterator[AttackedCohort]:
    """A new cohort that follows a policy. Without a `roster` section every device is admitted at once."""
    clock, quiet = SimulatedTime(float(BEGIN)), logger("error", "json", io.StringIO())
    with temporary_cohort(policy, clock=clock, roster=roster, log=quiet) as (cohort, engine):
        yield AttackedCohort(cohort, engine, clock, rng)


def policy_of(epsilon: float, *, start: BinaryTheta = START, version: int = 1, at: float = 1.0) -> Policy:
    """README's policy for one stream, with this threshold."""
    stream = StreamPolicy(
        states=("still", "moving"),
        period_ms=1000,
        discretiser=Threshold(at=at),
        theta=Assumption(start=theta_message(start), floor=theta_message(FLOOR)),
        epsilon=Audiences(operator=epsilon, public=epsilon),
        windows={"hour": Window(ticks=TICKS)},
    )
    return Policy(version=version, cohort=TOPICS.cohort, streams={STREAM: stream})


def honest(q: float, r: float) -> Behaviour:
    """A device whose states are a chain, drawn dwell time by dwell time."""

    def states(ticks: int, rng: np.random.Generator) -> States:
        first = int(rng.random() < q / (q + r))
        leaving = (r, q) if first else (q, r)
        dwells = np.stack([rng.geometric(chance, ticks) for chance in leaving], axis=1).ravel()
        ends = np.cumsum(dwells)
        count = int(np.searchsorted(ends, ticks)) + 1
        path = np.repeat((np.arange(count) + first) % 2, dwells[:count])[:ticks]
        return path.astype(np.uint8)

    return states


def constant(ticks: int, rng: np.random.Generator) -> States:
    """A device whose state never changes."""
    del rng
    return np.zeros(ticks, dtype=np.uint8)
