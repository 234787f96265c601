"""Whole lives of simulated cohorts: windows that arrive one after the other, learned from by the calibrator's own code.

Chains go on from window to window through real noise; what is counted of them is handed to
calibrator/learning/learn_window.py, on a database in memory in which every cohort is a stream. The noise of what is
learned is the calibrator's too, from the operating system: the same seed gives the same states, and not the same
draws of that noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, create_engine, insert, select

from hushmq.calibrator.learning import learn_window as learn
from hushmq.calibrator.learning.learn_window import COHORT, Progress
from hushmq.calibrator.learning.pending_statistics import Counted
from hushmq.calibrator.ledger.audience_timelines import NANO
from hushmq.calibrator.models.binary_model import TWO
from hushmq.calibrator.models.chain_model import written
from hushmq.calibrator.store import tables as store
from hushmq.evaluation.estimation.binary_coverage import Setting
from hushmq.evaluation.estimation.sanitized_binary import Streams, counted
from hushmq.pufferfish.binary.stream_loss import Box, Noise

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Life:
    """One line of a table: a kind of cohort under one noise setting, and how long it is followed.

    `setting.ticks` are those of a window.
    """

    setting: Setting
    windows: int = 32
    change: int = 16
    """After so many windows the noise or the chains may be others."""
    later: Setting | None = None
    """Its noise and its charge are those after the change."""
    turned: tuple[float, float] = (0.0, 0.0)
    """The change moves logit q and logit r of every device by this …"""
    gradually: int = 1
    """… in equal steps, over so many windows."""


@dataclass(frozen=True, slots=True)
class Version:
    """A noise version, and what a window is charged for learning under it, in nano-nats."""

    number: int
    noise: Noise
    tilt: int


@dataclass(frozen=True, slots=True)
class Moment:
    """What is believed of a cohort after so many windows: the looks alone, without start, floor and misfit."""

    cohort: int
    window: int
    looked: bool
    """Whether this was a look, and not a check between looks."""
    progress: Progress
    theta: Box | None
    """The cohort's; None where nothing is believed, and Θ is the policy's start."""
    own: dict[str, Box]


@dataclass(slots=True)
class Lives:
    """Cohorts of one kind, simulated together."""

    life: Life
    cohorts: int
    seed: int
    truth: Floats = field(init=False)
    """Q and r by cohort and device, at first."""
    strangers: Floats = field(init=False)
    """As many chains of devices that are in no cohort."""
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = np.random.Generator(np.random.SFC64(self.seed))
        shape = (self.cohorts, self.life.setting.devices, 2)
        total = self.cohorts * self.life.setting.devices
        self.truth, self.strangers = (
            self.life.setting.chains(total, self._rng).reshape(shape) for _ in range(2)
        )

    def chains(self, window: int) -> Floats:
        """The chains in this window."""
        done = min(1.0, max(0.0, (window - self.life.change) / self.life.gradually))
        logits = np.log(self.truth) - np.log1p(-self.truth) + done * np.array(self.life.turned)
        chains: Floats = 1 / (1 + np.exp(-logits))
        return chains

    def moments(self) -> Iterator[Moment]:
        """Live, and tell what is believed wherever that may have changed."""
        devices = self.life.setting.devices
        engine = create_engine("sqlite://")
        store.metadata.create_all(engine)
        q, r = self.truth.reshape(-1, 2).T
        streams = Streams(q, r, self._rng)
        settings = [self.life.setting, *([self.life.later] if self.life.later else [])]
        versions = [
            Version(number, one.noise, int(one.charge.tilt * NANO)) for number, one in enumerate(settings, 1)
        ]
        with engine.begin() as db:
            for version in versions:
                self._announce(db, version)
            before = [Progress()] * self.cohorts
            for window in range(1, self.life.windows + 1):
                q, r = self.chains(window).reshape(-1, 2).T
                streams.turn(q, r)
                version = versions[-1 if window > self.life.change else 0]
                sums = self._window(streams, version)
                for cohort in range(self.cohorts):
                    mine = sums[cohort * devices : (cohort + 1) * devices]
                    learn.note(db, str(cohort), mine, tilt=version.tilt, learner=TWO)
                    now = learn.progress(db, str(cohort))
                    lived = before[cohort].windows + 1
                    looked = lived == learn.last_look(lived)
                    if looked or now.contradictions > before[cohort].contradictions:
                        yield self._moment(db, cohort, window, now, looked=looked)
                    before[cohort] = now
        engine.dispose()

    def _announce(self, db: Connection, version: Version) -> None:
        row = {"version": version.number, "policy": 1, "noise": written(version.noise), "payload": b""}
        db.execute(insert(store.setting), [{"stream": str(cohort), **row} for cohort in range(self.cohorts)])

    def _window(self, streams: Streams, version: Version) -> list[Counted]:
        """One window of all devices of all cohorts."""
        ticks, devices = self.life.setting.ticks, self.life.setting.devices
        packed = streams.sanitized(version.noise.rho0, version.noise.rho1, ticks=ticks)
        return [
            Counted(f"device-{number % devices}", version.number, one.ticks, one.starts, one.groups)
            for number, one in enumerate(counted(packed, ticks=ticks))
        ]

    def _moment(self, db: Connection, cohort: int, window: int, now: Progress, *, looked: bool) -> Moment:
        rows = db.execute(select(store.belief).where(store.belief.c.stream == str(cohort)))
        believed = {row.device: TWO.read(row) for row in rows}
        return Moment(cohort, window, looked, now, believed.pop(COHORT, None), believed)
