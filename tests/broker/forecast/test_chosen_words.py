"""What push and the ledger say of class, stride, window method and maker."""

from __future__ import annotations

from typing import Any

import pytest

from hushmq.broker.contract.policy_message import Assumption, DeviceWindow, StreamPolicy, Window
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.forecast.chosen_words import BY_CALIBRATOR, BY_DEVICES, chosen, maker_reason
from hushmq.broker.forecast.policy_forecast import forecast
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from tests.calibrator.site import STREAM, policy

REGIMES = theta_message(
    RegimeTheta.of([RegimeChain.of([[0.98, 0.02], [0.02, 0.98]], [(0.1, 0.4), (0.4, 0.1)])])
)
HOUR = {"hour": Window(ticks=3600)}
MADE = {"hour": DeviceWindow(ticks=3600, scale=200.0)}


def stream(**changes: Any) -> StreamPolicy:
    fields: dict[str, Any] = {"adversary": "prior", "windows": HOUR}
    return policy(**(fields | changes)).streams[STREAM]


def test_every_choice_is_named_with_its_reason() -> None:
    """The class by Θ, the stride, the method, and who makes releases."""
    first = chosen(stream())
    assert first[0].startswith("first-order chains")
    assert first[1].startswith("a stride of 1")
    assert first[2] == "window method least-noise: of all methods that hold, the one with the least noise"
    assert first[3].startswith(BY_CALIBRATOR)
    regimes = chosen(stream(theta=Assumption(start=REGIMES, floor=REGIMES), stride=4))
    assert regimes[0].startswith("chains with hidden regimes")
    assert regimes[1].startswith("a stride of 4")
    assert "covered" in chosen(stream(misfit="report"))[0]
    assert chosen(stream(misfit="report"))[0] != first[0]
    by_devices = chosen(stream(windows={}, device_windows=MADE))
    assert len(by_devices) == 3
    assert by_devices[2].startswith(BY_DEVICES)


@pytest.mark.parametrize("theta", [None, Assumption(start=REGIMES, floor=REGIMES)])
def test_the_other_maker_is_compared(theta: Assumption | None) -> None:
    """For one device its own counts have less error than the noisy stream, and either way round it is said so."""
    changes = {} if theta is None else {"theta": theta}
    here = stream(**changes)
    said = maker_reason(here, forecast(here, here.theta.start.chains, devices=1))
    assert said is not None
    assert f"times SMALLER if {BY_DEVICES}" in said
    there = stream(windows={}, device_windows=MADE, **changes)
    said = maker_reason(there, forecast(there, there.theta.start.chains, devices=1))
    assert said is not None
    assert f"if {BY_CALIBRATOR}" in said


def test_nothing_is_compared_where_both_make_releases() -> None:
    """Then there is no other way."""
    both = stream(device_windows={"own": DeviceWindow(ticks=3600, scale=2000.0)})
    assert maker_reason(both, forecast(both, both.theta.start.chains, devices=1)) is None
