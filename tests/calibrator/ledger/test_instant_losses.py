"""The loss at each instant: what an exhaustive attack finds there, and over all instants what the account states."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.policy_message import Assumption, Window
from hushmq.broker.contract.signature import verify
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.ledger.instant_losses import instant_losses
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.ledger.ledger_report import read_ledger
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.timeline.entry import Entry
from tests.calibrator.settings.test_device_settings import POLICY, QUICK, WIDE, believe, own
from tests.calibrator.site import CALIBRATOR, START, STREAM, desk, from_device, policy, sqlite, states
from tests.pufferfish.oracles import attack, local

Q, R, TICKS = 0.15, 0.25, 4
CHAIN = theta_message(BinaryTheta(Q, Q, R, R))


def test_every_instant_has_lost_what_an_exhaustive_attack_finds(tmp_path: Path) -> None:
    """Eight ticks of the noisy stream under one chain: the ends lose less than the middle, each exactly as much."""
    whole = policy(theta=Assumption(start=CHAIN, floor=CHAIN), windows={"short": Window(ticks=TICKS)})
    with desk(sqlite(tmp_path)) as here:
        here.adopt(whole)
        for number in range(2):
            here.window(number, ticks=TICKS)
            here.cohort.close_due()
        with here.engine.connect() as db:
            found = list(instant_losses(db, whole, STREAM))
            stated = read_ledger(db, STREAM)
            together = list(instant_losses(db, whole, STREAM, stretches=1))
            (noise,) = issued_noises(db, STREAM).values()
    assert isinstance(noise, BinaryNoise)
    assert [one.first for one in found] == list(range(START, START + 2 * TICKS))
    likelihoods = local([(noise.rho0, noise.rho1)] * (2 * TICKS))
    for n, one in enumerate(found):
        exact = attack(Q, R, likelihoods, informed=False, ticks=[n]).loss
        assert exact <= one.operator <= exact * (1 + 1e-6)
    assert found[0].operator < found[TICKS].operator
    assert max(one.operator for one in found) == pytest.approx(stated.operator, rel=1e-9)
    assert max(one.public for one in found) == pytest.approx(stated.public, rel=1e-9)
    (whole_stretch,) = together
    assert (whole_stretch.first, whole_stretch.last) == (START, START + 2 * TICKS - 1)
    assert whole_stretch.operator == pytest.approx(stated.operator, rel=1e-9)


def test_an_instant_of_a_device_with_its_own_setting_has_lost_what_that_tells(tmp_path: Path) -> None:
    """Where no device used the cohort's setting, what the one with its own has lost counts, and no more than stated."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(POLICY)
        believe(here, {"": WIDE, "d0": QUICK})
        message = verify(NoiseSetting, own(here)["d0"].payload, [CALIBRATOR.public])
        here.clock.tick = START + 22
        here.cohort.receive([from_device("d0", START, states(20), noise=message.version)])
        here.cohort.close_due()
        with here.engine.connect() as db:
            found = list(instant_losses(db, POLICY, STREAM))
            stated = read_ledger(db, STREAM)
    assert [one.first for one in found] == list(range(START, START + 20))
    history = [Entry(START, START + 19, *message.noise.noise.tilts)]
    for one in found:
        exact = QUICK.timeline("prior", history, (one.first, one.last)).price().epsilon
        assert 0 < exact <= one.operator <= stated.operator * (1 + 1e-9)


def test_before_anything_is_published_no_instant_has_lost_anything(tmp_path: Path) -> None:
    """There is no instant to speak of."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        with here.engine.connect() as db:
            assert list(instant_losses(db, policy(), STREAM)) == []
