"""Bad devices: one that does not fit is left out and the others go on; many can deceive learning, up to a stated loss.

Real calibrators, counted batches and drawn noise; the devices' chains are simulated and sanitized as agents do.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.policy_message import Assumption, Audiences, Policy, Window
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.calibrator_config import DevicesSection
from hushmq.calibrator.ledger.audience_timelines import price_public
from hushmq.calibrator.ledger.debits import public_debits
from hushmq.calibrator.models.binary_model import BINARY, BinaryModel
from hushmq.calibrator.models.sufficient_statistics import Groups
from hushmq.calibrator.roster.left_out import left_out
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.deceived_loss import deceived_loss, deceived_public_loss
from tests.calibrator.site import START, STREAM, Desk, desk, from_device, policy, sqlite

TICKS = 8000
START_THETA, FLOOR = BinaryTheta(0.05, 0.45, 0.05, 0.45), BinaryTheta(0.3, 0.35, 0.3, 0.35)
HONEST = (0.2, 0.25)
CONSTANT = (0.0, 0.0)
DEAD = (0.0, 1.0)
LIMITS = DevicesSection(burst=100_000, messages_per_s=10_000)


def site_policy() -> Policy:
    return policy(
        theta=Assumption(start=theta_message(START_THETA), floor=theta_message(FLOOR)),
        epsilon=Audiences(operator=4.0, public=3.0),
        windows={"short": Window(ticks=TICKS)},
    )


def path(rng: np.random.Generator, chain: tuple[float, float], ticks: int) -> np.ndarray:
    """The states of a chain: of (0, 0) always state 1, of (0, 1) always state 0."""
    q, r = chain
    found = np.empty(ticks, dtype=np.int64)
    state = 1 if q + r == 0 else int(rng.random() < q / (q + r))
    for tick, chance in enumerate(rng.random(ticks)):
        found[tick] = state
        state = state ^ (chance < (q, r)[state])
    return found


class Fleet:
    """Devices with chains of their own, that follow the settings they are given and send one window after the other."""

    def __init__(self, here: Desk, chains: Mapping[str, tuple[float, float]], seed: int) -> None:
        self.here, self.chains = here, dict(chains)
        self._rng = np.random.default_rng(seed)
        self._number = 0

    def window(self) -> list[Release]:
        """All devices send a window; what was released of it."""
        first = START + self._number * TICKS
        self._number += 1
        cohort = self.here.cohort.calibrate()[STREAM].message
        own = self.here.cohort.calibrate_devices().in_force.get(STREAM, {})
        messages = []
        for device, chain in self.chains.items():
            setting = own[device].message if device in own else cohort
            if setting.version < cohort.version:
                setting = cohort
            noise = binary_noise_of(setting.noise)
            states = path(self._rng, chain, TICKS)
            flips = self._rng.random(TICKS) < np.where(states == 0, noise.rho0, noise.rho1)
            messages.append(from_device(device, first, (states ^ flips).tolist(), noise=setting.version))
        self.here.clock.tick = first + TICKS + 1
        self.here.cohort.receive(messages)
        before = len(self.here.cohort.unsent())
        self.here.cohort.close_due()
        return [decode(Release, one.payload) for one in self.here.cohort.unsent()[before:]]


def named(prefix: str, count: int, chain: tuple[float, float]) -> dict[str, tuple[float, float]]:
    return {f"{prefix}{number}": chain for number in range(count)}


def events(here: Desk, event: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in here.log.getvalue().splitlines()]
    return [line for line in lines if line["event"] == event]


@pytest.mark.slow
@pytest.mark.parametrize("honest", [10, 30])
def test_a_constant_device_stops_nobody(tmp_path: Path, honest: int) -> None:
    """It is left out at the first theta update; releases of the others go on, and Θ is that of the others."""
    with desk(sqlite(tmp_path), devices=LIMITS) as here:
        here.adopt(site_policy())
        fleet = Fleet(here, {**named("h", honest, HONEST), "constant": CONSTANT}, seed=1)
        released = [fleet.window() for _ in range(9)]
        assert [len(found) for found in released] == [1] * 9
        assert [found[0].devices for found in released] == [honest + 1] * 4 + [honest] * 5
        assert [line["device"] for line in events(here, "left_out")] == ["constant"]
        with here.engine.begin() as db:
            (why,) = left_out(db, STREAM).values()
        assert why.since == START + 4 * TICKS
        (state,) = here.cohort.ledger_states()
        assert state.stopped is None
        assert state.public.loss <= state.public.budget
        theta = state.public.theta.chains
        assert theta.contains(BinaryTheta.point(*HONEST))
        assert not theta.contains(START_THETA)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6, 7])
def test_a_constant_device_among_very_different_ones_stops_nobody(tmp_path: Path, seed: int) -> None:
    """Where it cannot be told from the others' spread, it is left out once its own Θ is beyond the policy's start."""
    rng = np.random.default_rng(seed)
    chains = {f"h{n}": tuple(rng.uniform(0.06, 0.42, 2)) for n in range(10)}
    with desk(sqlite(tmp_path), devices=LIMITS) as here:
        here.adopt(site_policy())
        fleet = Fleet(here, {**chains, "constant": CONSTANT}, seed=seed)
        released = [fleet.window() for _ in range(9)]
        assert [len(found) for found in released] == [1] * 9
        assert events(here, "release_refused") == []


@pytest.mark.slow
def test_the_share_that_a_fit_tolerates(tmp_path: Path) -> None:
    """A quarter of the devices, of several kinds, are left out at once and change nothing for the others."""
    bad = {"stuck": CONSTANT, "stuck2": CONSTANT, "dead": DEAD}
    with desk(sqlite(tmp_path), devices=LIMITS) as here:
        here.adopt(site_policy())
        fleet = Fleet(here, {**named("h", 9, HONEST), **bad}, seed=2)
        released = [fleet.window() for _ in range(6)]
        assert [found[0].devices for found in released] == [12] * 4 + [9] * 2
        with here.engine.begin() as db:
            assert left_out(db, STREAM).keys() == bad.keys()
        (state,) = here.cohort.ledger_states()
        assert state.stopped is None
        assert state.public.theta.chains.contains(BinaryTheta.point(*HONEST))


@pytest.mark.slow
def test_invented_devices_deceive_no_more_than_is_stated(tmp_path: Path) -> None:
    """Forty invented devices make Θ theirs, and few honest ones cannot help it: what a newcomer loses then is within
    the number that `push` and the ledger state; and above ε, so that the number is no idle one.
    """
    stated = deceived_loss(START_THETA, FLOOR, 4.0, "prior")
    stated_public = deceived_public_loss(START_THETA, FLOOR, 3.0, "prior")
    inside_floor = (0.33, 0.33)
    with desk(sqlite(tmp_path), devices=LIMITS) as here:
        here.adopt(site_policy())
        fleet = Fleet(here, {**named("x", 40, inside_floor), **named("h", 3, (0.06, 0.07))}, seed=3)
        worst = 0.0
        for _ in range(9):
            assert len(fleet.window()) == 1
            (state,) = here.cohort.ledger_states()
            theta = state.public.theta.chains
            assert theta.contains(FLOOR)
            noise = binary_noise_of(here.cohort.calibrate()[STREAM].message.noise)
            for corner in itertools.product((0.05, 0.45), repeat=2):
                chain = BinaryTheta.point(*corner)
                worst = max(worst, chain.constant_loss(noise.tau0, noise.tau1, "prior"))
        assert 4.0 < worst <= stated
        with here.engine.begin() as db:
            debits = public_debits(db, STREAM)
            odd = left_out(db, STREAM)
        assert price_public(debits, START_THETA, site_policy().streams[STREAM]).epsilon <= stated_public
        # The honest ones are the odd ones here: they are left out, and get the noise of the policy's start again.
        assert odd.keys() <= {"h0", "h1", "h2"}
        for device in odd:
            own = here.cohort.calibrate_devices().in_force[STREAM][device].message
            noise = binary_noise_of(own.noise)
            assert START_THETA.constant_loss(noise.tau0, noise.tau1, "prior") <= 4.0


@pytest.mark.slow
def test_a_device_that_is_left_out_is_shown_and_can_come_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the reason and what it may have lost; after `readmit` it is a newcomer, and the stream goes on."""
    url = sqlite(tmp_path)
    with desk(url, devices=LIMITS) as here:
        here.adopt(site_policy())
        fleet = Fleet(here, {**named("h", 10, HONEST), "stuck": CONSTANT}, seed=5)
        for _ in range(5):
            fleet.window()
        assert here.cohort.left_out() == {STREAM: ("stuck",)}
        assert main(["ledger", "show", "--database", url, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)[STREAM]
        stuck = told["left_out"]["stuck"]
        assert stuck["since"] == START + 4 * TICKS
        assert stuck["operator"] > 4.0
        assert told["operator"]["loss"] <= 4.0
        assert told["public"]["loss"] <= 3.0
        assert told["deceived"]["operator"] == deceived_loss(START_THETA, FLOOR, 4.0, "prior")
        assert main(["ledger", "show", "--database", url]) == 0
        words = capsys.readouterr().out
        assert "stuck is left out" in words
        assert "if learning is deceived" in words
        assert main(["calibrator", "readmit", "--database", url, "--stream", STREAM, "--device", "h1"]) == 2
        assert "stuck" in capsys.readouterr().err
        arguments = ["--database", url, "--stream", STREAM, "--device", "stuck"]
        assert main(["calibrator", "readmit", *arguments]) == 0
        fleet.chains["stuck"] = HONEST
        counts = [fleet.window()[0].devices for _ in range(4)]
        assert counts == [11] * 4
        assert here.cohort.left_out() == {STREAM: ()}


def test_who_is_left_out_follows_from_charged_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theorem 14: whatever the states were, with the same noisy statistics the same devices are left out."""
    drawn: list[Any] = []

    def remember(_self: object, exact: Sequence[Groups], **how: int) -> list[Groups]:
        drawn.append(add_noise(BINARY, exact, **how))
        return drawn[-1]

    def repeat(_self: object, exact: Sequence[Groups], **_how: int) -> list[Groups]:
        return replayed.pop(0)

    add_noise = BinaryModel.add_noise
    found = []
    for name, chain, noise in (("first", CONSTANT, remember), ("second", HONEST, repeat)):
        replayed = list(drawn)
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setattr(BinaryModel, "add_noise", noise)
        with desk(sqlite(folder), devices=LIMITS) as here:
            here.adopt(site_policy())
            fleet = Fleet(here, {**named("h", 8, HONEST), "odd": chain}, seed=len(name))
            counts = [fleet.window()[0].devices for _ in range(5)]
            with here.engine.begin() as db:
                found.append((counts, left_out(db, STREAM)))
    assert found[0] == found[1]
    assert found[0][1].keys() == {"odd"}
