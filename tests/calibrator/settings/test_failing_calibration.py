"""What fails for one stream or one device is set aside: said once, the last setting stays, the others go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from hushmq.broker.contract.policy_message import Policy
from hushmq.calibrator import cohort as cohort_module
from hushmq.calibrator.ingest.inbox import Inbox
from hushmq.calibrator.policy.failing_streams import FAILED_S
from hushmq.calibrator.serve_cohort import ServedCohort
from hushmq.calibrator.settings import calibrate, cohort_settings
from hushmq.calibrator.settings.device_settings import DeviceCalibration
from hushmq.calibrator.store import tables as store
from tests.calibrator.settings.test_device_rounds import regions
from tests.calibrator.settings.test_device_settings import POLICY, believe
from tests.calibrator.site import STREAM, Desk, desk, sqlite, stream_policy

BAD, GOOD = STREAM, "other"


def two_streams(version: int = 1) -> Policy:
    return Policy(
        version=version,
        cohort="test",
        streams={BAD: stream_policy(independent=True), GOOD: stream_policy(independent=True)},
    )


def failing(work: Callable[..., Any], fails: Callable[..., bool]) -> Callable[..., Any]:
    """The same work, which divides by zero where asked to."""

    def done(*args: Any, **kwargs: Any) -> Any:
        found = work(*args, **kwargs)
        if fails(*args, **kwargs):
            raise ZeroDivisionError("of a secret 0.7312")
        return found

    return done


def said(here: Desk, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in here.log.getvalue().splitlines()]
    return [one for one in lines if one["event"] == event]


@pytest.mark.parametrize("part", ["before it is stored", "after it is stored"])
def test_a_stream_that_cannot_be_calibrated_keeps_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Nothing of a failed attempt is stored; the other stream gets its setting; a minute later it is tried again."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(two_streams())
        before = here.cohort.calibrate()
        assert before.keys() == {BAD, GOOD}
        with monkeypatch.context() as patch:
            if part == "after it is stored":
                spoilt = failing(
                    cohort_settings.calibrate_cohort, lambda _db, accounts, _: accounts.stream == BAD
                )
                patch.setattr(cohort_settings, "calibrate_cohort", spoilt)
            else:
                spoilt = failing(calibrate.next_version, lambda _db, stream: stream == BAD)
                patch.setattr(calibrate, "next_version", spoilt)
            here.adopt(two_streams(2))
            made = here.cohort.calibrate()
            assert made[GOOD].message.policy == 2
            assert BAD not in made, "it has none under the new policy"
            with here.engine.begin() as db:
                stored = select(func.max(store.setting.c.version)).where(store.setting.c.stream == BAD)
                assert db.execute(stored).scalar() == before[BAD].message.version
            assert here.cohort.failed == {BAD: "its setting cannot be calibrated: ZeroDivisionError"}
            assert len(said(here, "stream_failed")) == 1
            assert "7312" not in here.log.getvalue()
            assert not here.cohort.calibration_due
        here.clock.tick += FAILED_S
        assert here.cohort.calibration_due
        assert here.cohort.calibrate()[BAD].message.policy == 2
        assert here.cohort.failed == {}


def test_the_last_setting_stays_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that had a setting under this policy has the same one after the failure."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(two_streams())
        before = here.cohort.calibrate()
        spoilt = failing(cohort_settings.calibrate_cohort, lambda _db, accounts, _: accounts.stream == BAD)
        monkeypatch.setattr(cohort_settings, "calibrate_cohort", spoilt)
        assert here.cohort.calibrate() == before


def test_a_device_that_cannot_be_calibrated_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others get their settings, it gets none; said once, however often it is tried."""
    spoilt = failing(DeviceCalibration.issue, lambda _self, _db, device, _noise: device.name == "d03")
    monkeypatch.setattr(DeviceCalibration, "issue", spoilt)
    with desk(sqlite(tmp_path)) as here:
        here.adopt(POLICY)
        known = regions(5)
        believe(here, known)
        here.cohort.calibrate()
        for look in (2, 3):
            made = here.cohort.calibrate_devices().in_force[STREAM]
            assert made.keys() == known.keys() - {"", "d03"}
            believe(here, known, looks=look)
        (one,) = said(here, "device_failed")
        assert (one["device"], one["why"]) == ("d03", "ZeroDivisionError")
        assert "7312" not in here.log.getvalue()


def test_accounts_that_cannot_be_priced_stop_no_other_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of the others is published; the daemon's turn goes on."""
    spoilt = failing(cohort_module.ledger_state, lambda _db, accounts, *_: accounts.stream == BAD)
    monkeypatch.setattr(cohort_module, "ledger_state", spoilt)
    with desk(sqlite(tmp_path)) as here:
        here.adopt(two_streams())
        served = ServedCohort(here.cohort, Inbox(here.cohort._log), grace_s=1.0, seen_every_s=1.0)
        served.begin()
        assert [state.stream for state in here.cohort.ledger_states()] == [GOOD]
        assert served.report(connected=True).stopped == {
            BAD: "its accounts cannot be priced: ZeroDivisionError"
        }
