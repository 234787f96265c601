"""A cohort whose devices follow a chain that the test moves: real windows through a real calibrator, quickly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmq.broker.contract.messages import LedgerState
from hushmq.broker.contract.policy_message import Assumption, Audiences, Policy, Window
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.windows.close_window import WindowOutcome
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import START, STREAM, TOPICS, Desk, from_device, policy, signed

TICKS, DEVICES = 400, 40
FIRST = START - START % TICKS
"""The first tick of the first window."""
WIDE_START = BinaryTheta(0.12, 0.45, 0.12, 0.45)
FAST, SLOW = (0.39, 0.39), (0.15, 0.15)
EPSILON = Audiences(operator=8.0, public=4.0)


def moving_policy(version: int = 1, **changes: Any) -> Policy:
    """ε of 8 and 4, a start that slow chains lie in, and a floor that only fast ones do."""
    fields: dict[str, Any] = {
        "theta": Assumption(
            start=theta_message(WIDE_START), floor=theta_message(BinaryTheta(0.38, 0.4, 0.38, 0.4))
        ),
        "epsilon": EPSILON,
        "windows": {"short": Window(ticks=TICKS)},
        "misfit": "report",
    }
    return policy(version, **(fields | changes))


@dataclass(slots=True)
class MovingCohort:
    """Sends one window after the other; every device perturbs with the setting in force."""

    desk: Desk
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(5))
    windows: int = 0
    _states: NDArray[np.int64] = field(default_factory=lambda: np.zeros(DEVICES, dtype=np.int64))

    def follow(self, message: Policy) -> None:
        self.desk.cohort.receive([Arrived(TOPICS.policy, signed(message))])

    def window(
        self,
        chain: tuple[float, float],
        *,
        version: int | None = None,
        arriving: Callable[[int], slice] = lambda _: slice(None),
    ) -> WindowOutcome:
        """Calibrate, send a window of states of this chain, and close it; with an older setting if one is named.

        Of device n the ticks `arriving(n)` of the window arrive in time, and no others.
        """
        made = self.desk.cohort.calibrate()[STREAM].message
        noise = made.noise.noise
        assert isinstance(noise, BinaryNoise)
        first = FIRST + self.windows * TICKS
        self.desk.clock.tick = first + TICKS + 1
        bits = self._draw(chain)
        flipped = self.rng.random(bits.shape) < np.where(bits == 0, noise.rho0, noise.rho1)
        sent = (bits ^ flipped).astype(np.uint8)
        self.desk.cohort.receive(
            from_device(
                f"d{n}", first + range(TICKS)[part].start, bytes(row[part]), noise=version or made.version
            )
            for n, row in enumerate(sent)
            if range(TICKS)[part := arriving(n)]
        )
        self.windows += 1
        closed = self.desk.cohort.close_due().windows
        assert len(closed) == 1
        return closed[0]

    def _draw(self, chain: tuple[float, float]) -> NDArray[np.int64]:
        found = np.empty((DEVICES, TICKS), dtype=np.int64)
        for t in range(TICKS):
            leave = np.where(self._states == 0, *chain)
            self._states = self._states ^ (self.rng.random(DEVICES) < leave)
            found[:, t] = self._states
        return found

    @property
    def ledger(self) -> LedgerState:
        return self.desk.cohort.ledger_states()[0]
