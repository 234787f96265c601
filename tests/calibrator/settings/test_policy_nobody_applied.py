"""A policy that no device has applied: no noise is issued for it, so that it costs nothing once another one follows."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushmq.broker.contract.messages import NoiseSetting, Refusal, Status, decode, encode
from hushmq.broker.contract.policy_message import Audiences
from hushmq.broker.contract.problem import Reason
from hushmq.broker.contract.signature import Signed
from hushmq.broker.service.log import logger
from hushmq.calibrator.ingest import settling
from hushmq.calibrator.ingest.inbox import Arrived, Inbox
from hushmq.calibrator.serve_cohort import ServedCohort
from tests.calibrator.site import STREAM, TOPICS, Desk, desk, policy, signed, sqlite

NOISE = TOPICS.noise(STREAM)
MILD, STRONG = Audiences(operator=4.0, public=1.0), Audiences(operator=6.0, public=1.0)


class Outlet:
    """A broker that keeps what is published."""

    connected = True

    def __init__(self) -> None:
        self.retained: dict[str, bytes] = {}

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        on_acknowledged: Callable[[], None] | None = None,
    ) -> None:
        assert retain
        self.retained[topic] = payload
        if on_acknowledged is not None:
            on_acknowledged()


class Site:
    """A cohort that is served, and what its broker retains."""

    def __init__(self, here: Desk) -> None:
        self.here, self.outlet = here, Outlet()
        self.start()

    def start(self) -> None:
        """Serve the cohort, from now on or again."""
        self.inbox = Inbox(logger("error", "json", io.StringIO()))
        self.served = ServedCohort(self.here.cohort, self.inbox, grace_s=1.0, seen_every_s=0.0)
        self.served.begin()

    def arrive(self, topic: str, payload: bytes) -> None:
        self.inbox.put(Arrived(topic, payload))
        self.served.turn(self.outlet)

    def push(self, version: int, epsilon: Audiences) -> None:
        self.arrive(TOPICS.policy, signed(policy(version, epsilon=epsilon)))

    def report(self, device: str, applied: int | None, refused: int | None = None) -> None:
        refusal = None if refused is None else Refusal(version=refused, reason=Reason.EPSILON_ABOVE_CAP)
        self.arrive(TOPICS.status(device), encode(Status(online=True, policy=applied, refused=refusal)))

    @property
    def setting(self) -> NoiseSetting | None:
        payload = self.outlet.retained.get(NOISE)
        return None if payload is None else decode(Signed[NoiseSetting], payload).message

    def released(self) -> dict[str, Any]:
        """The first release, of ticks that carry the newest setting."""
        assert self.setting is not None
        self.here.window(0, noise=self.setting.version)
        self.here.cohort.close_due()
        [only] = self.here.cohort.unsent()
        found: dict[str, Any] = json.loads(only.payload)
        return found


@pytest.fixture(autouse=True)
def settles_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "SETTLING_S", 0.0)


def test_a_policy_that_all_refuse_costs_nothing(tmp_path: Path) -> None:
    """Settings and releases after it are those of a site where it was never pushed; its noise would cost 1.7 times."""
    scales, noises = [], []
    for name, refused in (("with", True), ("without", False)):
        (tmp_path / name).mkdir()
        with desk(sqlite(tmp_path / name)) as here:
            site = Site(here)
            site.report("d0", None)
            if refused:
                site.push(2, STRONG)
                site.report("d0", None, refused=2)
                assert site.setting is None
            site.push(3, MILD)
            site.report("d0", 3)
            assert site.setting is not None
            noises.append((site.setting.version, site.setting.noise))
            scales.append(site.released()["scale"])
    assert scales[0] == scales[1]
    assert noises[0] == noises[1]


def test_one_device_is_enough(tmp_path: Path) -> None:
    """The setting is made when the first device has applied the policy; the earlier one stays until then."""
    with desk(sqlite(tmp_path)) as here:
        site = Site(here)
        site.report("d0", None)
        site.push(1, MILD)
        site.report("d0", 1)
        assert site.setting is not None
        site.push(2, STRONG)
        assert site.setting.policy == 1
        site.report("d1", 1, refused=2)
        assert site.setting.policy == 1
        site.report("d0", 2)
        assert site.setting.policy == 2


def test_without_devices_nothing_waits(tmp_path: Path) -> None:
    """The first setting of a site is there before its first device."""
    with desk(sqlite(tmp_path)) as here:
        site = Site(here)
        site.push(1, MILD)
        site.arrive(TOPICS.policy, signed(policy(1, epsilon=MILD)))
        assert site.setting is not None


def test_a_start_waits_for_the_statuses_that_the_broker_retains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A calibrator that has just started knows no device: it issues nothing before these have come."""
    with desk(sqlite(tmp_path)) as here:
        site = Site(here)
        site.report("d0", None)
        site.push(2, STRONG)
    with desk(sqlite(tmp_path)) as here:
        monkeypatch.setattr(settling, "SETTLING_S", 3600.0)
        again = Site(here)
        again.served.turn(again.outlet)
        assert here.cohort.policy is not None
        assert again.setting is None
        assert not here.cohort.calibrate(nobody_applied=True)
        monkeypatch.setattr(settling, "SETTLING_S", 0.0)
        again.start()
        again.report("d0", None, refused=2)
        again.served.turn(again.outlet)
        assert again.setting is None
