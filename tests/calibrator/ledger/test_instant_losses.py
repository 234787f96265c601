"""The loss at each instant: what an exhaustive attack finds there, and over all instants what the account states."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.policy_message import Assumption, Window
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.ledger.instant_losses import instant_losses
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.ledger.ledger_report import read_ledger
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import START, STREAM, desk, policy, sqlite
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


def test_before_anything_is_published_no_instant_has_lost_anything(tmp_path: Path) -> None:
    """There is no instant to speak of."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        with here.engine.connect() as db:
            assert list(instant_losses(db, policy(), STREAM)) == []
