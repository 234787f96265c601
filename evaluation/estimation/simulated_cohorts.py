"""Simulated cohorts over many windows, with the calibrator's learning.

Chains continue from window to window; their sufficient statistics go to calibrator/learning/learn_window.py, on a
database in memory in which every cohort is a stream. The noise on the statistics comes from the operating system, as in
the calibrator: a seed determines the states but not this noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, create_engine, insert

from hushmq.calibrator.learning.learn_window import learn_window
from hushmq.calibrator.learning.learned_theta import read_learned
from hushmq.calibrator.learning.learning_progress import Progress, read_progress
from hushmq.calibrator.learning.update_schedule import is_update
from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.estimation.binary_coverage import BinaryScenario
from hushmq.evaluation.estimation.sanitized_binary import SanitizedStreams, counted
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.protocols import Region

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CohortScenario:
    """One line of a table: a type of cohort under one noise setting, and the number of windows simulated.

    `setting.ticks` is the length of a window.
    """

    setting: BinaryScenario
    windows: int = 32
    change: int = 16
    """The number of windows after which the noise or the chains change."""
    later: BinaryScenario | None = None
    """The setting with the noise and the charge after the change."""
    logit_shift: tuple[float, float] = (0.0, 0.0)
    """The change moves logit q and logit r of every device by this …"""
    gradually: int = 1
    """… in equal steps, over so many windows."""


@dataclass(frozen=True, slots=True)
class Version:
    """A noise version, and what a window is charged for learning under it, in nano-nats."""

    number: int
    noise: BinaryNoise
    tilt: int


@dataclass(frozen=True, slots=True)
class LearnedThetas:
    """The learned Θ of a cohort and its devices after some windows, without start, floor and misfit."""

    cohort: int
    window: int
    scheduled: bool
    """Whether a theta update was scheduled for this window, and not a change test alone."""
    progress: Progress
    theta: BinaryTheta | None
    """The cohort's Θ; None before the first update, when Θ is the policy's start."""
    own: dict[str, BinaryTheta]


@dataclass(slots=True)
class SimulatedCohorts:
    """Cohorts of one scenario, simulated together."""

    scenario: CohortScenario
    cohorts: int
    seed: int
    truth: Floats = field(init=False)
    """Q and r by cohort and device, at first."""
    strangers: Floats = field(init=False)
    """As many chains of devices that are in no cohort."""
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.Generator(np.random.SFC64(self.seed))
        shape = (self.cohorts, self.scenario.setting.devices, 2)
        total = self.cohorts * self.scenario.setting.devices
        self.truth, self.strangers = (
            self.scenario.setting.chains(total, self._rng).reshape(shape) for _ in range(2)
        )

    def chains(self, window: int) -> Floats:
        """The chains in this window."""
        done = min(1.0, max(0.0, (window - self.scenario.change) / self.scenario.gradually))
        logits = np.log(self.truth) - np.log1p(-self.truth) + done * np.array(self.scenario.logit_shift)
        chains: Floats = 1 / (1 + np.exp(-logits))
        return chains

    def learned_thetas(self) -> Iterator[LearnedThetas]:
        """Simulates all windows and yields the learned Θ after every update and change test."""
        devices = self.scenario.setting.devices
        engine = create_engine("sqlite://")
        store.metadata.create_all(engine)
        q, r = self.truth.reshape(-1, 2).T
        streams = SanitizedStreams(q, r, self._rng)
        settings = [self.scenario.setting, *([self.scenario.later] if self.scenario.later else [])]
        versions = [
            Version(number, one.noise, int(one.charge.tilt * NANO)) for number, one in enumerate(settings, 1)
        ]
        with engine.begin() as db:
            for version in versions:
                self._announce(db, version)
            for window in range(1, self.scenario.windows + 1):
                q, r = self.chains(window).reshape(-1, 2).T
                streams.change_chains(q, r)
                version = versions[-1 if window > self.scenario.change else 0]
                sums = self._window(streams, version)
                for cohort in range(self.cohorts):
                    mine = sums[cohort * devices : (cohort + 1) * devices]
                    windows = read_progress(db, str(cohort)).windows + 1
                    update = learn_window(db, str(cohort), BINARY, mine, tilt=version.tilt)
                    scheduled = is_update(windows)
                    if scheduled or update.changed_theta:
                        yield self._learned_thetas(db, cohort, window, scheduled=scheduled)
        engine.dispose()

    def _announce(self, db: Connection, version: Version) -> None:
        row = {"version": version.number, "policy": 1, "noise": version.noise.as_json(), "payload": b""}
        db.execute(insert(store.setting), [{"stream": str(cohort), **row} for cohort in range(self.cohorts)])

    def _window(self, streams: SanitizedStreams, version: Version) -> list[ExactStatistics]:
        """One window of all devices of all cohorts."""
        ticks, devices = self.scenario.setting.ticks, self.scenario.setting.devices
        packed = streams.sanitized(version.noise.rho0, version.noise.rho1, ticks=ticks)
        return [
            ExactStatistics(f"device-{number % devices}", version.number, one.ticks, one.starts, one.groups)
            for number, one in enumerate(counted(packed, ticks=ticks))
        ]

    def _learned_thetas(self, db: Connection, cohort: int, window: int, *, scheduled: bool) -> LearnedThetas:
        learned, now = read_learned(db, str(cohort), BINARY), read_progress(db, str(cohort))
        return LearnedThetas(
            cohort, window, scheduled, now, _binary(learned.cohort), _all_binary(learned.devices)
        )


def _binary(theta: Region | None) -> BinaryTheta | None:
    return theta if isinstance(theta, BinaryTheta) else None


def _all_binary(thetas: Mapping[str, Region]) -> dict[str, BinaryTheta]:
    return {device: theta for device, theta in thetas.items() if isinstance(theta, BinaryTheta)}
