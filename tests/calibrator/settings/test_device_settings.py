"""Settings for single devices: made where worth it, followed by that device alone, and within both promises."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy import select

from hushmq.agent.accept_settings import Settings, Trust
from hushmq.broker.contract.messages import NoiseSetting, Release, decode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.policy_message import Assumption
from hushmq.broker.contract.problem import Reason
from hushmq.broker.contract.signature import verify
from hushmq.broker.contract.theta_message import binary_theta_of, theta_message
from hushmq.broker.contract.topics import parse
from hushmq.calibrator.calibrator_config import DevicesSection
from hushmq.calibrator.learning.learned_theta import LearnedTheta, drop_stream, write_learned
from hushmq.calibrator.learning.learning_progress import Progress, write_progress
from hushmq.calibrator.learning.update_schedule import FIRST_UPDATE
from hushmq.calibrator.ledger.audience_timelines import price_public
from hushmq.calibrator.ledger.debits import Debit, public_debits
from hushmq.calibrator.ledger.ledger_report import read_ledger
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.ledger.verify_ledger import verify as verify_ledger
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.settings.device_settings import WORTH_A_FIRST
from hushmq.calibrator.settings.stored_settings import StoredSetting
from hushmq.calibrator.store import tables as store
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import price
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.timeline.entry import Entry
from tests.calibrator.site import (
    CALIBRATOR,
    OPS,
    START,
    STREAM,
    TOPICS,
    Desk,
    desk,
    from_device,
    policy,
    signed,
    sqlite,
    states,
    stream_policy,
)

WIDE, FLOOR = BinaryTheta(0.05, 0.45, 0.05, 0.45), BinaryTheta(0.3, 0.31, 0.3, 0.31)
QUICK, SLOW = BinaryTheta(0.25, 0.35, 0.25, 0.35), BinaryTheta(0.06, 0.35, 0.06, 0.35)
POLICY = policy(theta=Assumption(start=theta_message(WIDE), floor=theta_message(FLOOR)))


def believe(here: Desk, thetas: Mapping[str, BinaryTheta], *, looks: int = 1, stream: str = STREAM) -> None:
    """As if a theta update had found these regions; the cohort's has the empty name."""
    devices = {device: theta for device, theta in thetas.items() if device}
    with here.engine.begin() as db:
        drop_stream(db, stream)
        write_learned(db, stream, LearnedTheta(thetas.get(""), devices))
        windows = FIRST_UPDATE << 10 + looks  # no update comes soon
        write_progress(db, stream, Progress(windows, undetectable=0.0))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Desk]:
    with desk(sqlite(tmp_path)) as one:
        one.adopt(POLICY)
        believe(one, {"": WIDE, "d0": QUICK, "d1": SLOW})
        yield one


def own(here: Desk) -> dict[str, StoredSetting]:
    here.cohort.calibrate()
    return here.cohort.calibrate_devices().in_force[STREAM]


def signal(noise: BinaryNoise) -> float:
    return 1 - noise.rho0 - noise.rho1


def test_only_the_device_with_evidence_gets_its_own(here: Desk) -> None:
    """A region that allows much less noise is worth a setting; one hardly narrower than the cohort's is not."""
    made = own(here)
    assert set(made) == {"d0"}
    message = verify(NoiseSetting, made["d0"].payload, [CALIBRATOR.public])
    assert (message.device, message.version, binary_theta_of(message.theta)) == ("d0", 2, QUICK)
    cohorts = here.cohort.calibrate()[STREAM].message
    assert signal(binary_noise_of(message.noise)) > WORTH_A_FIRST * signal(binary_noise_of(cohorts.noise))
    assert own(here)["d0"].payload == made["d0"].payload


def test_it_survives_a_restart(tmp_path: Path) -> None:
    """The same bytes, and no new version."""
    with desk(sqlite(tmp_path)) as first:
        first.adopt(POLICY)
        believe(first, {"": WIDE, "d0": QUICK})
        before = own(first)
    with desk(sqlite(tmp_path)) as second:
        assert {device: one.payload for device, one in own(second).items()} == {
            device: one.payload for device, one in before.items()
        }


def test_the_device_follows_it_and_no_other_does(here: Desk, tmp_path: Path) -> None:
    """An agent takes its own setting after the cohort's, keeps it, and refuses another's."""
    cohorts, made = here.cohort.calibrate()[STREAM], own(here)["d0"]
    trust = Trust(ops=(OPS.public,), calibrator=(CALIBRATOR.public,), epsilon_max=8.0, rho_min=0.0)
    for device, version in (("d0", 2), ("d1", 1)):
        folder = tmp_path / device
        folder.mkdir()
        agent = Settings(folder, trust, cohort="test", device=device, streams=[STREAM])
        offers = [
            (TOPICS.policy, signed(POLICY)),
            (TOPICS.noise(STREAM), cohorts.payload),
            (TOPICS.noise(STREAM, "d0"), made.payload),
            (TOPICS.noise(STREAM), cohorts.payload),
        ]
        for topic, payload in offers:
            address = parse(topic)
            assert address is not None
            agent.offer(address, payload, {})
        assert agent.noise[STREAM].version == version


def test_another_devices_noise_is_not_counted(here: Desk) -> None:
    """Ingest refuses a batch that claims the setting of another device, and counts the owner's."""
    own(here)
    here.clock.tick = START + 30
    here.cohort.receive([from_device("d1", START + 5, states(5), noise=2)])
    assert here.cohort.rejected[Reason.POLICY_MISMATCH] == 1
    here.cohort.receive([from_device("d0", START + 5, states(5), noise=2)])
    assert here.cohort.counted == 5


def test_every_mixture_of_its_settings_keeps_the_operators_promise(here: Desk) -> None:
    """Whatever a device used when, of the cohort's settings and its own: within ε of the timeline under its own Θ."""
    own(here)
    narrower = BinaryTheta(0.28, 0.33, 0.28, 0.33)
    believe(here, {"": BinaryTheta(0.1, 0.4, 0.1, 0.4), "d0": narrower}, looks=2)
    own(here)
    with here.engine.begin() as db:
        accounts = read_accounts(db, STREAM, stream_policy(), theta=WIDE, device_thetas={"d0": narrower})
    (one,) = accounts.exposures.values()
    noises = one.noises
    assert len(noises) == 4
    rng = random.Random(3)
    worst = 0.0
    for share in (0.2, 0.5, 0.9, 1.0):
        used = [noises[-1] if rng.random() < share else rng.choice(noises) for _ in range(40)]
        timeline = [Entry(tick, tick, noise.tau0, noise.tau1) for tick, noise in enumerate(used)]
        worst = max(worst, price(timeline, narrower, "prior").epsilon)
    assert 3.99 < worst <= 4.0
    assert worst <= one.operator_loss(stream_policy()) * (1 + 1e-9) <= 4.0


def test_the_cohorts_new_setting_brings_the_devices_own_again(here: Desk) -> None:
    """An agent follows the newer of the two: so a device's own is made anew after the cohort's."""
    first = own(here)["d0"].message
    believe(here, {"": BinaryTheta(0.15, 0.4, 0.15, 0.4), "d0": QUICK}, looks=2)
    cohorts = here.cohort.calibrate()[STREAM].message
    again = own(here)["d0"].message
    assert first.version < cohorts.version < again.version
    assert again.noise == first.noise


def test_what_is_no_longer_believed_is_replaced_at_once(here: Desk) -> None:
    """When what was known of a device is dropped its noise is too weak, and it is told so, however small the change."""
    weak = own(here)["d0"].message
    believe(here, {}, looks=2)
    strong = own(here)["d0"].message
    assert strong.version > weak.version
    assert binary_theta_of(strong.theta) == WIDE
    noise = binary_noise_of(strong.noise)
    assert loss(WIDE, tau0=noise.tau0, tau1=noise.tau1, adversary="prior") <= 4.0
    with here.engine.begin() as db:
        assert read_accounts(db, STREAM, stream_policy(), theta=WIDE).operator_loss(db) <= 4.0
    # What is sent under the weaker noise cannot be taken back, and the operator's account says so.
    here.clock.tick = START + 40
    here.cohort.receive([from_device("d0", START, states(20), noise=weak.version)])
    with here.engine.begin() as db:
        assert read_accounts(db, STREAM, stream_policy(), theta=WIDE).operator_loss(db) > 4.0


@pytest.mark.slow
def test_releases_tell_no_more_of_it_than_the_public_may_know(here: Desk) -> None:
    """Windows for long, d0's states through its own weaker noise: its own exact price under its own Θ is within ε."""
    noise = binary_noise_of(own(here)["d0"].message.noise)
    for number in range(12):
        first = START + number * 20
        here.clock.tick = first + 21
        here.cohort.receive(
            [from_device(f"d{n}", first, states(20, n), noise=1 if n else 2) for n in range(2)]
        )
        (closed,) = here.cohort.close_due().windows
        assert closed.charge is not None, closed.refusal
    with here.engine.begin() as db:
        debits = public_debits(db, STREAM)
        book = read_ledger(db, STREAM)
        assert all(check.passed for check in verify_ledger(db, STREAM))
    through_own = [Debit(one.first, one.last, one.tilt, noise) for one in debits]
    exact = price_public(through_own, QUICK, stream_policy()).epsilon
    assert 0.5 < exact <= book.public <= 1.0
    (state,) = here.cohort.ledger_states()
    assert state.public.loss == pytest.approx(book.public)
    assert state.stopped is None


@pytest.mark.slow
def test_a_weaker_setting_does_not_make_earlier_windows_dearer(here: Desk) -> None:
    """Windows spent all of ε behind much noise; then the cohort's noise falls, and a device for which it is too weak
    gets its own. No tick of those windows can carry either: nothing is over budget, and the next window is released."""
    believe(here, {"": WIDE})
    own(here)
    for number in range(3):
        first = START + number * 20
        here.clock.tick = first + 21
        here.cohort.receive([from_device(f"d{n}", first, states(20, n), noise=1) for n in range(2)])
        (closed,) = here.cohort.close_due().windows
        assert closed.charge is not None, closed.refusal
    beside = BinaryTheta(0.1, 0.4, 0.1, 0.4)
    believe(here, {"": QUICK, "d0": beside}, looks=2)
    made = own(here)
    assert set(made) == {"d0"}
    weak = binary_noise_of(here.cohort.calibrate()[STREAM].message.noise)
    (state,) = here.cohort.ledger_states()
    assert state.stopped is None
    assert state.public.loss <= 1.0
    here.clock.tick = START + 82
    here.cohort.receive([from_device("d1", START + 60, states(20, 1), noise=2)])
    (closed,) = here.cohort.close_due().windows
    assert closed.charge is not None, closed.refusal
    with here.engine.begin() as db:
        debits = public_debits(db, STREAM)
    # d0 may have used any setting in the last window, and only the first one before.
    noises = [weak, binary_noise_of(made["d0"].message.noise), debits[-1].noise]
    exact = max(
        price_public([*debits[:-1], Debit(*_span(debits[-1]), noise)], beside, stream_policy()).epsilon
        for noise in noises
    )
    (state,) = here.cohort.ledger_states()
    assert exact <= state.public.loss <= 1.0
    # Had they been priced behind the weaker noise, they would have been over budget.
    through_weak = [Debit(*_span(one), weak) for one in debits[:-1]]
    assert price_public(through_weak, beside, stream_policy()).epsilon > 1.0


def _span(debit: Debit) -> tuple[int, int, int]:
    return debit.first, debit.last, debit.tilt


@pytest.mark.slow
def test_a_device_over_its_budget_stops_the_release(here: Desk) -> None:
    """Where a device's own account would be over ε the window is refused, and the reason names the device."""
    own(here)
    here.window(noise=1)
    (fine,) = here.cohort.close_due().windows
    assert fine.charge is not None
    # d0 turns out to be much slower than was believed, and its old noise was weak.
    believe(here, {"": WIDE, "d0": BinaryTheta(0.001, 0.3, 0.001, 0.3)}, looks=3)
    here.window(1, noise=1)
    with here.engine.begin() as db:
        before = len(public_debits(db, STREAM))
    (refused,) = here.cohort.close_due().windows
    assert refused.charge is None
    assert "d0" in refused.refusal.reason
    with here.engine.begin() as db:
        assert len(public_debits(db, STREAM)) == before
    (state,) = here.cohort.ledger_states()
    assert state.stopped is not None


@pytest.mark.slow
def test_each_version_is_debiased_by_its_own_noise(here: Desk) -> None:
    """A cohort's histogram holds states under both settings; each is counted and debiased apart."""
    own(here)
    here.clock.tick = START + 21
    here.cohort.receive(
        [from_device("d0", START, states(20), noise=2), from_device("d2", START, states(20), noise=1)]
    )
    here.cohort.close_due()
    (outgoing,) = here.cohort.unsent()
    message = decode(Release, outgoing.payload)
    assert (message.devices, message.ticks) == (2, 40)
    with here.engine.begin() as db:
        rows = db.execute(select(store.statistic.c.device, store.statistic.c.noise)).all()
    assert sorted(map(tuple, rows)) == [("d0", 2), ("d2", 1)]
    assert message.tilt < NANO


def test_a_clock_that_lags_is_reckoned_with(here: Desk) -> None:
    """Ticks as far back as clocks may lag can carry a new setting: they are counted, and priced behind its noise."""
    own(here)
    skew = int(DevicesSection().skew_s)
    with here.engine.begin() as db:
        accounts = read_accounts(db, STREAM, stream_policy(), theta=WIDE, device_thetas={"d0": QUICK})
    (one,) = accounts.exposures.values()
    assert [first for first, _ in one.device_noises] == [START - skew]
    here.cohort.receive([from_device("d0", START - skew - 5, states(5), noise=2)])
    assert here.cohort.rejected == {Reason.IMPOSSIBLE_TICK: 1}
    here.cohort.receive([from_device("d0", START - skew, states(5), noise=2)])
    assert here.cohort.counted == 5
