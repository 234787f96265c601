"""A setting is made when it is needed or worth it, and a version stands for one setting for ever."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from sqlalchemy import Connection

from hushmq.agent.accept_settings import Trust, check_noise
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, binary_noise_of
from hushmq.broker.contract.policy_message import Audiences, DeviceWindow, StreamPolicy
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.signature import PrivateKey, verify
from hushmq.calibrator.ledger.device_exposure import DeviceExposure
from hushmq.calibrator.ledger.ledger_report import read_ledger
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.settings.calibrate import Issuer, calibrate_cohort
from hushmq.calibrator.settings.choose_noise import WORTH_PUSHING, mixable
from hushmq.calibrator.settings.stored_settings import StoredSetting, cohort_setting
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss, optimal_noise
from tests.calibrator.site import CALIBRATOR, NARROW, STREAM, WIDE, desk, policy, sqlite, stream_policy
from tests.hushmq.enumeration import losses


def make(
    db: Connection, theta: BinaryTheta, *, policy: StreamPolicy | None = None, version: int = 1
) -> StoredSetting | None:
    """The setting if one was issued."""
    accounts = read_accounts(db, STREAM, policy or stream_policy(), theta=theta)
    one = calibrate_cohort(db, accounts, Issuer("test", CALIBRATOR, version))
    return one.setting if one.issued else None


def test_a_setting_keeps_the_operators_promise(tmp_path: Path) -> None:
    """What is pushed is signed, for this policy, and its loss under its Θ is within ε."""
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        made = make(db, WIDE)
        assert made is not None
        message = verify(NoiseSetting, made.payload, [CALIBRATOR.public])
        assert message == made.message
        assert (message.version, message.policy, message.theta.chains) == (1, 1, WIDE)
        noise = binary_noise_of(message.noise)
        assert loss(WIDE, tau0=noise.tau0, tau1=noise.tau1, adversary="prior") <= 4.0


def test_a_new_key_signs_what_is_in_force(tmp_path: Path) -> None:
    """After the calibrator's key was rotated, a device that trusts the new one alone takes the setting in force, and
    one that has it already sees the same message, version and all."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        before = here.cohort.calibrate()[STREAM]
    new = PrivateKey(b"n" * 32)
    with desk(sqlite(tmp_path), key=new) as here:
        after = here.cohort.calibrate()[STREAM]
        assert "settings_signed_again" in here.log.getvalue()
    assert verify(NoiseSetting, after.payload, [new.public]) == before.message
    with pytest.raises(Rejected):
        verify(NoiseSetting, after.payload, [CALIBRATOR.public])
    with desk(sqlite(tmp_path), key=new) as here:
        assert here.cohort.calibrate()[STREAM].payload == after.payload
        assert "settings_signed_again" not in here.log.getvalue()


def test_hysteresis(tmp_path: Path) -> None:
    """The same Θ, or one hardly narrower, makes no new setting; one that is worth it does."""
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        first = make(db, WIDE)
        assert make(db, WIDE) is None
        assert make(db, BinaryTheta(0.151, 0.449, 0.151, 0.449)) is None
        second = make(db, NARROW)
        assert first is not None
        assert second is not None
        assert second.message.version == 2
        signal = [
            1 - one.rho0 - one.rho1
            for one in (binary_noise_of(first.message.noise), binary_noise_of(second.message.noise))
        ]
        assert signal[1] >= WORTH_PUSHING * signal[0]


@pytest.mark.slow
def test_a_setting_too_weak_is_replaced_at_once(tmp_path: Path) -> None:
    """When Θ widens so that the noise in force breaks the promise, more noise is pushed however small the gain."""
    wider = BinaryTheta(0.2499, 0.30, 0.2999, 0.35)
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        make(db, NARROW)
        made = make(db, wider)
        assert made is not None
        before, after = optimal_noise(NARROW, 4.0, "prior"), binary_noise_of(made.message.noise)
        assert after.rho0 + after.rho1 > before.rho0 + before.rho1


def test_no_moment_of_a_change_exceeds_the_promise(tmp_path: Path) -> None:
    """Every mixture of an old and a new setting, tick by tick, is within ε: by enumeration of all paths and outputs.

    Both settings are the calibrator's own, the new one for a narrower Θ. A setting 20% too informative would fail.
    """
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        old, new = make(db, WIDE), make(db, NARROW)
    assert old is not None
    assert new is not None
    noises = [binary_noise_of(old.message.noise), binary_noise_of(new.message.noise)]
    bold = BinaryNoise(noises[1].rho0 * 0.8, noises[1].rho1 * 0.8)
    ticks, epsilon = 6, 4.0
    worst = 0.0
    for uses in itertools.product((0, 1), repeat=ticks):
        if list(uses) in (sorted(uses), sorted(uses, reverse=True)) or uses[::2] == (0, 0, 0):
            tilts = [(noises[use].tau0, noises[use].tau1) for use in uses]
            worst = max(worst, *losses(NARROW.q_low, NARROW.r_low, tilts, informed=False))
    assert epsilon * 0.97 < worst <= epsilon
    assert max(losses(NARROW.q_low, NARROW.r_low, [(bold.tau0, bold.tau1)] * ticks, informed=False)) > epsilon


def test_settings_that_do_not_mix_are_made_to(tmp_path: Path) -> None:
    """Where the chain alternates (q+r > 1) two settings may each keep ε and break it together: then noise is added."""
    theta, epsilon = BinaryTheta.point(0.8, 0.85), 2.0
    stream = stream_policy(epsilon=Audiences(operator=epsilon, public=1.0))

    def lopsided(share: float) -> BinaryNoise:
        """The noise with this share of its tilt towards 0 that just keeps ε."""
        low, high = 0.0, 4.0
        while high - low > 1e-9:
            total = (low + high) / 2
            kept = loss(theta, tau0=total * share, tau1=total * (1 - share), adversary="prior") <= epsilon
            low, high = (total, high) if kept else (low, total)
        both = math.expm1(low)
        return BinaryNoise(math.expm1(low * share) / both, math.expm1(low * (1 - share)) / both)

    old, new = lopsided(0.7), lopsided(0.3)
    mixture = [(old.tau0, old.tau1), (new.tau0, new.tau1)] * 3
    assert max(losses(0.8, 0.85, mixture, informed=False)) > epsilon
    mixed = mixable(new, [old], theta=theta, policy=stream)
    assert mixed.rho0 + mixed.rho1 > new.rho0 + new.rho1
    together = loss(theta, tau0=max(old.tau0, mixed.tau0), tau1=max(old.tau1, mixed.tau1), adversary="prior")
    assert 0.999 * epsilon < together <= epsilon
    mended = [(old.tau0, old.tau1), (mixed.tau0, mixed.tau1)] * 3
    assert max(losses(0.8, 0.85, mended, informed=False)) <= epsilon
    assert mixable(new, [new], theta=theta, policy=stream) == new


LOW, HIGH = BinaryTheta(0.05, 0.1, 0.05, 0.1), BinaryTheta(0.3, 0.4, 0.3, 0.4)
BESIDE = stream_policy(epsilon=Audiences(operator=2.0, public=1.0))


def within(theta: BinaryTheta, *noises: BinaryNoise) -> bool:
    """Whether every mixture of these keeps ε."""
    tau0, tau1 = max(one.tau0 for one in noises), max(one.tau1 for one in noises)
    return loss(theta, tau0=tau0, tau1=tau1, adversary="prior") <= 2.0


@pytest.mark.parametrize(
    "theta",
    [
        HIGH,
        BinaryTheta(0.1, 0.4, 0.1, 0.4),
        BinaryTheta(0.2, 0.6, 0.3, 0.7),
        BinaryTheta(0.79, 0.81, 0.84, 0.85),
    ],
)
@pytest.mark.parametrize(
    "own",
    [
        LOW,
        BinaryTheta(0.15, 0.2, 0.2, 0.3),
        HIGH,
        BinaryTheta(0.5, 0.7, 0.5, 0.8),
        BinaryTheta.point(0.8, 0.85),
    ],
)
def test_a_cohorts_setting_mixes_for_every_device(theta: BinaryTheta, own: BinaryTheta) -> None:
    """Whatever a device's Θ and settings: if they kept ε for it before, they do with the cohort's new one."""
    start = BinaryTheta(0.04, 0.85, 0.04, 0.85)
    first = optimal_noise(start, 2.0, "prior")
    for mine in (optimal_noise(own, 1.99, "prior"), first, BinaryNoise(0.45, 0.3), BinaryNoise(0.31, 0.47)):
        if not within(own, first, mine):
            continue
        exposure = DeviceExposure("d0", own, (first, mine), ((0, mine),))
        new = mixable(
            optimal_noise(theta, 1.99, "prior"), [first], theta=theta, policy=BESIDE, exposures=[exposure]
        )
        assert within(theta, first, new)
        assert within(own, first, mine, new)


def test_a_device_that_is_over_already_does_not_undo_the_mixing() -> None:
    """One for which nothing can be mended, and nothing gets worse, leaves the others' promise as it is."""
    theta, old, new = BinaryTheta.point(0.8, 0.85), BinaryNoise(0.31, 0.47), BinaryNoise(0.47, 0.31)
    alone = mixable(new, [old], theta=theta, policy=BESIDE)
    assert not within(theta, old, new)
    assert within(theta, old, alone)
    weak = BinaryNoise(0.01, 0.01)
    over = DeviceExposure("d0", LOW, (old, weak), ((0, weak),))
    assert not within(LOW, *over.noises)
    assert mixable(new, [old], theta=theta, policy=BESIDE, exposures=[over]) == alone


def test_versions_rise_across_policies(tmp_path: Path) -> None:
    """A new policy gets a setting of its own, with a version no setting of the stream ever had."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.adopt(policy(2, learning=0.4))
        with here.engine.begin() as db:
            old, new = cohort_setting(db, STREAM, 1), cohort_setting(db, STREAM, 2)
        assert old is not None
        assert new is not None
        assert (old.message.version, new.message.version) == (1, 2)


def test_the_same_bytes_after_a_restart(tmp_path: Path) -> None:
    """A version once made is published with identical bytes for ever."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        before = here.cohort.calibrate()[STREAM].payload
    with desk(sqlite(tmp_path)) as again:
        assert again.cohort.calibrate()[STREAM].payload == before


def test_device_made_windows_are_left_room_for(tmp_path: Path) -> None:
    """With windows the device itself releases, the setting is one the device accepts, and the accounts include them."""
    windows = {"hour": DeviceWindow(ticks=3600, scale=10.0)}
    stream = stream_policy(device_windows=windows)
    trust = Trust(ops=(), calibrator=(), epsilon_max=10.0, rho_min=0.001)
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(device_windows=windows))
        with here.engine.connect() as db:
            report = read_ledger(db, STREAM)
        assert report.entries == []
        assert report.public > 0  # device windows cost the public account before anything is charged
        setting = here.cohort.calibrate()[STREAM].message
        check_noise(setting, stream, trust)
        plain = optimal_noise(WIDE, 4.0, "prior")
        with pytest.raises(Rejected):
            check_noise(
                setting.model_copy(update={"noise": BinaryNoiseMessage(rho0=plain.rho0, rho1=plain.rho1)}),
                stream,
                trust,
            )
        (state,) = here.cohort.ledger_states()
        assert state.public.loss == pytest.approx(loss(WIDE, tau0=0.1, tau1=0.1, adversary="prior"))
        for number in range(3):
            here.window(number)
            (one,) = here.cohort.close_due().windows
            assert one.refusal is None
            assert state.public.loss < one.charge.loss <= 1.0
        here.adopt(policy(2))
        assert (
            here.cohort.ledger_states()[0].public.loss >= one.charge.loss
        )  # a device may lag behind under the old policy


def test_windows_that_leave_nothing_are_told(tmp_path: Path) -> None:
    """Device-made windows dearer than ε: no setting is made, nothing is released, and the log says what to raise."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(device_windows={"hour": DeviceWindow(ticks=3600, scale=0.2)}))
        assert here.cohort.calibrate() == {}
        assert "raise their scale" in here.log.getvalue()
