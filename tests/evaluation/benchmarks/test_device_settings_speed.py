"""Device-specific settings are measured on devices that receive some, for every chain model."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.evaluation.benchmarks.device_settings_speed import (
    four_states,
    measured,
    some_class,
    some_theta,
    two_states,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stream", "regions"),
    [
        (two_states("prior"), {n: some_theta(n, 0.15, 0.35) for n in range(3)}),
        (two_states("informed"), {n: some_theta(n, 0.01, 0.05) for n in range(2)}),
        (four_states(), {n: some_class(n) for n in range(2)}),
    ],
)
def test_all_devices_get_one(stream: StreamPolicy, regions: dict[int, dict[int, object]]) -> None:
    """It says so itself where too few did; no portion is longer than all of them."""
    each, longest = measured("some", stream, regions)
    assert each.value is not None
    assert longest.value is not None
    assert longest.ratio is not None
    assert 0 < longest.ratio <= 1
    assert longest.value <= each.value * len(regions) * 1.001
