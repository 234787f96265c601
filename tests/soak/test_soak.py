"""The soak in short: a few devices, some faults one after the other, and the same verdict as after twenty minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import soak_faults
from tests.soak.run_soak import soak
from tests.soak.soak_site import Plan

KINDS = (
    "device killed",
    "calibrator killed",
    "broker killed",
    "retained garbage",
    "bad device",
    "outbox damaged",
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_site_under_faults_keeps_its_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody ends unasked, no tick has two noises, all that was sampled is counted, and the ledger is accepted."""
    monkeypatch.setattr(soak_faults, "LASTS_S", 0.5)
    monkeypatch.setattr(soak_faults.Faults, "_draw", lambda _: iter(KINDS))
    plan = Plan("nats", "sqlite", devices=4, seconds=10.0, every_s=10 / len(KINDS))
    record = soak(plan, tmp_path, say=lambda _: None)
    assert record.wrong == []
    assert len(record.faults) >= 3
    assert record.numbers["ticks counted"] > 0
