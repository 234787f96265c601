"""Device-specific settings where several streams, or several devices, are one account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hushmq.broker.contract.messages import Batch, encode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.packing import pack
from hushmq.broker.contract.policy_message import Group, Policy
from hushmq.broker.contract.theta_message import binary_theta_of
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.ledger.live_accounts import accounts_under
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.timeline.entry import Entry
from tests.calibrator.settings.test_device_settings import POLICY, QUICK, WIDE, believe
from tests.calibrator.site import START, STREAM, TOPICS, Desk, desk, sqlite, states

NAMES = ("light", "motion")


def policy(groups: dict[str, Group] | None = None, version: int = 1) -> Policy:
    streams = dict.fromkeys(NAMES, POLICY.streams[STREAM])
    return Policy(version=version, cohort="test", streams=streams, groups=groups or {})


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Desk]:
    with desk(sqlite(tmp_path)) as one:
        one.adopt(policy())
        yield one


def own(here: Desk, device: str = "d0") -> dict[str, BinaryNoise]:
    """The noise of the device-specific settings of a device, by stream."""
    here.cohort.calibrate()
    made = here.cohort.calibrate_devices().in_force
    return {
        stream: binary_noise_of(found[device].message.noise)
        for stream, found in made.items()
        if device in found
    }


def send(here: Desk, stream: str, device: str, first: int, noise: int, ticks: int = 20) -> None:
    batch = Batch(first=first, after=None, count=ticks, states=pack(states(ticks)), noise=noise)
    here.clock.tick = max(here.clock.tick, first + ticks + 1)
    here.cohort.receive([Arrived(TOPICS.batch(device, stream), encode(batch))])


def together(theta: BinaryTheta, noises: list[BinaryNoise]) -> float:
    tau0, tau1 = (sum(taus) for taus in zip(*(one.tilts for one in noises), strict=True))
    return theta.constant_loss(tau0, tau1, "prior")


def test_a_device_has_evidence_only_if_all_its_streams_have(here: Desk) -> None:
    """Nothing is known of the other stream: the hull is the cohort's Θ, and no device-specific setting is worth it."""
    believe(here, {"": WIDE, "d0": QUICK}, stream="motion")
    believe(here, {"": WIDE}, stream="light")
    assert own(here) == {}
    believe(here, {"": WIDE, "d0": QUICK}, stream="light", looks=2)
    found = own(here)
    assert set(found) == set(NAMES)
    assert 3.99 < together(QUICK, list(found.values())) <= 4.0
    settings = here.cohort.calibrate_devices().in_force
    for name in NAMES:
        assert binary_theta_of(settings[name]["d0"].message.theta) == QUICK


def test_the_devices_of_a_group_are_one_device_in_this(tmp_path: Path) -> None:
    """A group's Θ is the hull of its devices'; settings of two streams on two devices keep ε together."""
    groups = {"ann": Group(devices=("d0", "d1"))}
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(groups))
        for name in NAMES:
            believe(here, {"": WIDE, "d0": QUICK}, stream=name)
        assert own(here) == {}
        for name in NAMES:
            believe(here, {"": WIDE, "d0": QUICK, "d1": QUICK}, stream=name, looks=2)
        both = [*own(here, "d0").values(), *own(here, "d1").values()]
        assert len(both) == 4
        assert 3.8 < together(QUICK, both) <= 4.0  # the public budget keeps it a little lower


def test_a_stream_that_is_learned_prices_the_other_anew(here: Desk) -> None:
    """Both streams' settings name the hull; when the second stream is known as well, both get better noise."""
    narrow = BinaryTheta(0.25, 0.35, 0.25, 0.35)
    believe(here, {"": narrow}, stream="motion")
    first = here.cohort.calibrate()
    assert all(binary_theta_of(one.message.theta) == WIDE for one in first.values())
    believe(here, {"": narrow}, stream="light")
    second = here.cohort.calibrate()
    assert all(binary_theta_of(one.message.theta) == narrow for one in second.values())
    assert 3.99 < together(narrow, [binary_noise_of(one.message.noise) for one in second.values()]) <= 4.0
    believe(
        here, {"": WIDE}, stream="light", looks=2
    )  # Θ widens for both, though one stream alone has changed
    third = here.cohort.calibrate()
    assert all(third[name].message.version > second[name].message.version for name in NAMES)
    assert together(WIDE, [binary_noise_of(one.message.noise) for one in third.values()]) <= 4.0


def test_releases_keep_the_public_budget_of_such_a_device(here: Desk) -> None:
    """Its true tilts, each stream's amplified through the least of its own noises, are added: within ε, as stated."""
    for name in NAMES:
        believe(here, {"": WIDE, "d0": QUICK}, stream=name)
    own(here)
    for number in range(2):
        for name in NAMES:
            for device in ("d0", "d1"):
                send(here, name, device, START + 20 * number, noise=1)
        closed = here.cohort.close_due().windows
        assert [one.refusal for one in closed] == [None, None]
    (state, other) = here.cohort.ledger_states()
    assert state.public.loss == pytest.approx(other.public.loss)
    with here.engine.begin() as db:
        accounts = accounts_under(db, policy(), "motion")
        accounts.follow(db)
        assert accounts.joint is not None
        ((device, theta, tilt),) = accounts.joint.exposed_tilts()
        added = 0.0
        for one in accounts.joint.members:
            (piece,) = one.public.held()
            charged = one.public.largest_sanitized_tilt() / 1e9
            least = max(noise.amplified(charged) for noise in one.issued.noises_of("d0"))
            assert least >= piece.tau0
            added += least
        checks = [check for name in NAMES for check in verify(db, name)]
    assert (device, theta) == ("d0", QUICK)
    assert tilt == pytest.approx(added, rel=1e-9)
    assert QUICK.constant_loss(tilt, tilt, "prior") <= state.public.loss * (1 + 1e-9) <= 1.0
    assert all(check.passed for check in checks), [one for one in checks if not one.passed]


def test_what_cannot_be_taken_back_is_stated_for_all_streams(here: Desk) -> None:
    """What is believed of a device is dropped after it sent with weak noise: the sum of both streams is the loss."""
    for name in NAMES:
        believe(here, {"": WIDE, "d0": QUICK}, stream=name)
    weak = own(here)
    versions = {
        name: one["d0"].message.version for name, one in here.cohort.calibrate_devices().in_force.items()
    }
    for name in NAMES:
        send(here, name, "d0", START, noise=versions[name])
    for name in NAMES:
        believe(here, {}, stream=name, looks=2)
    own(here)
    tau0, tau1 = (sum(taus) for taus in zip(*(one.tilts for one in weak.values()), strict=True))
    exact = WIDE.timeline("prior", [Entry(START, START + 19, tau0, tau1)]).price().epsilon
    assert exact > 4.0
    for state in here.cohort.ledger_states():
        assert state.operator.loss == pytest.approx(exact, rel=1e-9)
        assert state.operator.left < 0
