"""From nothing to the first release in three commands, none of them an editor; then a bundle, a picture, an end."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest

from hushmq.broker.provision.broker_process import free_port
from hushmq.setup.household import Household
from tests.hushmq.setup.stranger import walk

FAST = {
    "HUSHMQ_CALIBRATOR__GRACE_S": "1.0",
    "HUSHMQ_CALIBRATOR__SEEN_EVERY_S": "0.2",
    "HUSHMQ_AGENT__PUBLISH__BEAT_MS": "250",
}
"""The same path with a shorter beat and grace: a test does not wait for a minute to pass."""


@pytest.mark.slow
def test_a_stranger_gets_a_release_in_three_commands(tmp_path: Path) -> None:
    """A site, everything running, and a device: then a release is printed, and one signal ends it all.

    Meanwhile another device joins with a bundle, there is a picture, and the device is forgotten again. The stride that
    was chosen is that of the release.
    """
    where = f"--port {free_port('127.0.0.1')} --listen 127.0.0.1 --host localhost"
    what = "--period 10ms --lasting 40ms,40ms --window short=2s"
    found = walk([sys.executable, "-m", "hushmq"], tmp_path, f"{where} {what}".split(), FAST)
    assert (found.to_release, len(found.commands)) == (3, 7)
    assert "<svg" in Path(found.picture).read_text()
    assert found.by_hand == []
    assert found.release.startswith("release ")
    assert "motion/short/cohort" in found.release
    stride = Household.open(tmp_path / "home").policy().streams["motion"].stride
    with sqlite3.connect(tmp_path / "home" / "calibrator" / "ledger.db") as db:
        releases = [json.loads(row[0]) for row in db.execute("SELECT payload FROM release")]
    assert stride > 1
    assert {one["stride"] for one in releases} == {stride}
    assert {one["ticks"] / one["devices"] for one in releases} == {200 // stride}
    assert (tmp_path / "home" / "calibrator" / "ledger.db").stat().st_mode & 0o777 == 0o600
