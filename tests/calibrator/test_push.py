"""A setting is made when it is needed or worth it, and a version stands for one setting for ever."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from broker.messages import NoiseSetting, StreamPolicy
from broker.signature import verify
from calibrator.push import WORTH_PUSHING, Current, current, next_setting
from pufferfish.binary import Box, loss, optimal_noise
from tests.calibrator.site import CALIBRATOR, NARROW, STREAM, WIDE, desk, policy, sqlite, stream_policy


def make(
    db: Connection, theta: Box, *, policy: StreamPolicy | None = None, version: int = 1
) -> Current | None:
    return next_setting(
        db,
        cohort="test",
        stream=STREAM,
        policy=policy or stream_policy(),
        policy_version=version,
        theta=theta,
        key=CALIBRATOR,
    )


def test_a_setting_keeps_the_operators_promise(tmp_path: Path) -> None:
    """What is pushed is signed, for this policy, and its loss under its Θ is within ε."""
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        made = make(db, WIDE)
        assert made is not None
        message = verify(NoiseSetting, made.payload, [CALIBRATOR.public])
        assert message == made.message
        assert (message.version, message.policy, message.theta.box) == (1, 1, WIDE)
        noise = message.noise
        assert loss(WIDE, tau0=noise.tau0, tau1=noise.tau1, adversary="prior") <= 4.0


def test_hysteresis(tmp_path: Path) -> None:
    """The same Θ, or one hardly narrower, makes no new setting; one that is worth it does."""
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        first = make(db, WIDE)
        assert make(db, WIDE) is None
        assert make(db, Box(0.151, 0.449, 0.151, 0.449)) is None
        second = make(db, NARROW)
        assert first is not None
        assert second is not None
        assert second.message.version == 2
        signal = [1 - one.message.rho0 - one.message.rho1 for one in (first, second)]
        assert signal[1] >= WORTH_PUSHING * signal[0]


def test_a_setting_too_weak_is_replaced_at_once(tmp_path: Path) -> None:
    """When Θ widens so that the noise in force breaks the promise, more noise is pushed however small the gain."""
    wider = Box(0.2499, 0.30, 0.2999, 0.35)
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        make(db, NARROW)
        made = make(db, wider)
        assert made is not None
        before, after = optimal_noise(NARROW, 4.0, "prior"), made.message.noise
        assert after.rho0 + after.rho1 > before.rho0 + before.rho1


def test_versions_rise_across_policies(tmp_path: Path) -> None:
    """A new policy gets a setting of its own, with a version no setting of the stream ever had."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.adopt(policy(2, learning=0.4))
        with here.engine.begin() as db:
            old, new = current(db, STREAM, 1), current(db, STREAM, 2)
        assert old is not None
        assert new is not None
        assert (old.message.version, new.message.version) == (1, 2)


def test_the_same_bytes_after_a_restart(tmp_path: Path) -> None:
    """A version once made is published with identical bytes for ever."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        before = here.cohort.settings()[STREAM].payload
    with desk(sqlite(tmp_path)) as again:
        assert again.cohort.settings()[STREAM].payload == before
