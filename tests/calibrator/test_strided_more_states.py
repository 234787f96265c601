"""A stream of four states that publishes one of every so many ticks: settings, windows, ledger and its checkers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hushmq.agent.accept_settings import Trust, check_noise
from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.operator_loss import operator_loss
from hushmq.broker.contract.policy_message import Assumption, Audiences, DeviceWindow, Window
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.forecast.choose_stride import choose_stride, stride_gain
from hushmq.calibrator.ledger.live_accounts import accounts_under
from hushmq.calibrator.models.choose_model import model_of
from hushmq.verify.claims import Verdict
from tests.calibrator.site import START, Desk, desk, sqlite
from tests.calibrator.test_more_states import (
    STREAM,
    around,
    follow,
    policy,
    releases,
    sent,
    states,
    stream_policy,
    verified,
)
from tests.hushmq.verify.exported import checked, exported, faults, sealed_again

STRIDE, TICKS = 5, 100
THETA = Assumption(start=around(0.2), floor=around(0.05))
STRIDED: dict[str, Any] = {
    "stride": STRIDE,
    "theta": THETA,
    "adversary": "informed",
    "windows": {"short": Window(ticks=TICKS, scopes=("cohort", "device"))},
}


def send_windows(at: Desk, count: int) -> None:
    """Every device sends the strides of some windows, one window after the other."""
    strides = TICKS // STRIDE
    for number in range(count):
        first = START // STRIDE + number * strides
        at.clock.tick = (first + strides) * STRIDE + 1
        at.cohort.receive([sent(f"d{n}", first, states(strides, seed=9 * number + n)) for n in range(3)])
        at.cohort.close_due()


def test_a_device_computes_the_loss_of_its_stride_itself(tmp_path: Path) -> None:
    """The setting keeps ε at its stride and uses nearly all of it; at a shorter stride the same noise is refused."""
    with desk(sqlite(tmp_path)) as at:
        setting: NoiseSetting = follow(at, **STRIDED)
        stream = at.cohort.policy.streams[STREAM]
        check_noise(setting, stream, Trust((), (), 20.0, 1e-6))
        loss = operator_loss(setting.theta, setting.noise, 0.0, "informed", 1.0, STRIDE)
        assert 0.999 * stream.epsilon.operator < loss <= stream.epsilon.operator
        with pytest.raises(Rejected) as refused:
            check_noise(setting, stream_policy(**STRIDED | {"stride": 4}), Trust((), (), 20.0, 1e-6))
        assert refused.value.reason == Reason.LOSS_ABOVE_EPSILON


def test_windows_close_by_strides_and_the_ledger_verifies(tmp_path: Path) -> None:
    """Counts are of strides, nothing is learned, both checkers agree, and one that was told less finds it out."""
    with desk(sqlite(tmp_path)) as at:
        follow(at, **STRIDED)
        send_windows(at, 3)
        found = releases(at)
        assert {one.scope for one in found} == {"cohort", "d0", "d1", "d2"}
        for one in found:
            assert (one.stride, one.last - one.first + 1) == (STRIDE, TICKS // STRIDE)
            assert one.loss <= one.budget
        assert set(verified(at).values()) == {True}
        with at.engine.begin() as db:
            accounts = accounts_under(db, policy(**STRIDED), STREAM)
            accounts.follow(db)
            assert accounts.operator_loss(db) <= 8.0
            assert accounts.theta == model_of(stream_policy(**STRIDED)).start(stream_policy(**STRIDED))
        tree = exported(at)
    assert faults(checked(tree, tmp_path)) == {}
    tree["policies"][0]["signed"]["message"]["streams"][STREAM]["stride"] = 4
    wrong = faults(checked(sealed_again(tree), tmp_path))
    assert Verdict.FAILS in {verdict for verdict, _ in wrong.values()}


def test_the_stride_with_the_least_error_is_chosen() -> None:
    """It divides the windows, and its errors are smaller than those of every tick."""
    fields = STRIDED | {"stride": 1, "adversary": "prior", "windows": {"short": Window(ticks=60)}}
    fields["epsilon"] = Audiences(operator=2.0, public=1.0)
    every = policy(**fields)
    chosen = choose_stride(every, STREAM)
    assert 60 % chosen == 0
    assert chosen > 1
    gain = stride_gain(every, STREAM, chosen)
    assert gain is not None
    assert gain > 1.2
    for other in (2, 60):
        found = stride_gain(every, STREAM, other)
        assert found is None or found <= gain


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"stride": 3}, "windows.short.ticks: 100 is no multiple of stride"),
        ({"device_windows": {"own": DeviceWindow(ticks=100, scale=100.0)}}, "device_windows"),
        ({"windows": {"short": Window(ticks=100, method="mqm-exact")}, "adversary": "prior"}, "mqm-exact"),
    ],
)
def test_policies_ask_for_no_stride_that_is_not_priced(changes: dict[str, Any], says: str) -> None:
    """Each is refused by name."""
    with pytest.raises(ValidationError, match=says):
        stream_policy(**STRIDED | changes)
