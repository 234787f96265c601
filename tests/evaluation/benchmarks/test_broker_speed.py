"""The two brokers side by side, for a moment."""

from __future__ import annotations

import pytest

from hushmq.evaluation.benchmarks.broker_speed import run
from tests.brokers import require_mosquitto


@pytest.mark.slow
def test_both_brokers_deliver() -> None:
    """Each carries something, and the ratio is that of the two."""
    require_mosquitto()
    nats, mosquitto = run(turns=1, seconds=0.5)
    assert nats.value
    assert mosquitto.value
    assert nats.ratio == nats.value / mosquitto.value
