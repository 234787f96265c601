"""A stream that publishes one of every so many ticks: windows, accounts, what is learned of it, and its checkers."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sqlalchemy import select

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.policy_message import Assumption, DeviceWindow, Group, Policy, Window
from hushmq.broker.contract.theta_message import theta_message
from hushmq.calibrator.ledger.live_accounts import accounts_under
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.calibrator.models.binary.binary_strides import for_strides, for_ticks
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.models.sufficient_statistics import NoisyStatistics
from hushmq.calibrator.models.window_count import WindowCount
from hushmq.calibrator.store import tables as store
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.thinning.strided_chain import thinned
from hushmq.verify.claims import Verdict
from tests.calibrator.site import (
    START,
    STREAM,
    Desk,
    desk,
    from_device,
    policy,
    sqlite,
    states,
    stream_policy,
)
from tests.hushmq.verify.exported import checked, exported, faults, sealed_again

STRIDE = 5
WIDE, FLOOR = BinaryTheta(0.05, 0.3, 0.05, 0.3), BinaryTheta(0.1, 0.12, 0.1, 0.12)
WINDOWS = {"short": Window(ticks=100, scopes=("cohort", "device")), "long": Window(ticks=200)}


def strided(**changes: Any) -> Policy:
    """Windows of 20 and of 40 strides."""
    theta = Assumption(start=theta_message(WIDE), floor=theta_message(FLOOR))
    fields: dict[str, Any] = {"windows": WINDOWS, "theta": theta, "adversary": "informed", "stride": STRIDE}
    return policy(**(fields | changes))


def send_window(here: Desk, number: int, *, devices: int = 3, left_out: int = 0) -> None:
    """Every device sends the 20 strides of one short window, the last one without the first so many of them."""
    first = START // STRIDE + number * 20
    here.clock.tick = (first + 20) * STRIDE + 1
    for n in range(devices):
        gone = left_out if n == devices - 1 else 0
        here.cohort.receive([from_device(f"d{n}", first + gone, states(20 - gone, seed=number * 9 + n))])
    here.cohort.close_due()


def released(here: Desk) -> list[Release]:
    with here.engine.begin() as db:
        rows = db.execute(select(store.release.c.payload).order_by(store.release.c.entry)).scalars()
        return [decode(Release, payload) for payload in rows]


def test_windows_close_by_strides_and_keep_the_budget(tmp_path: Path) -> None:
    """Their counts are of strides, what did not arrive is filled, and the ledger verifies at the price of strides."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(strided())
        for number in range(4):
            send_window(here, number, left_out=7 * (number % 2))
        found = released(here)
        assert {one.window for one in found} == {"short", "long"}
        for one in found:
            length = WINDOWS[one.window].ticks // STRIDE
            assert one.last - one.first + 1 == length
            assert one.ticks == one.devices * length
            assert (one.stride, one.first % length) == (STRIDE, 0)
            assert one.loss <= one.budget
            assert one.smoothed is not None
        with here.engine.begin() as db:
            assert [check for check in verify(db, STREAM) if not check.passed] == []
            accounts = accounts_under(db, strided(), STREAM)
            accounts.follow(db)
            # Published at every tick, the same noise would lose much more.
            noise = accounts.issued.cohort[0]
            assert accounts.operator_loss(db) <= 4.0
            assert accounts.theta.constant_loss(*noise.tilts, "informed") > 6.0
            strides = accounts.theta.constant_loss(*noise.tilts, "informed", stride=STRIDE)
            assert accounts.operator_loss(db) == pytest.approx(strides, rel=1e-6)
        assert faults(checked(exported(here), tmp_path)) == {}


def test_the_checker_finds_a_stride_that_was_not_kept(tmp_path: Path) -> None:
    """Losses that are right for a stride of 5 are not for the same numbers under a stride of 4."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(strided())
        for number in range(2):
            send_window(here, number)
        tree = exported(here)
    tree["policies"][0]["signed"]["message"]["streams"][STREAM]["stride"] = 4
    wrong = faults(checked(sealed_again(tree), tmp_path))
    assert any("keeps ε of the operator" in claim for claim in wrong)
    assert Verdict.FAILS in {verdict for verdict, _ in wrong.values()}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"stride": 3}, "windows.short.ticks: 100 is no multiple of stride"),
        ({"stride": 0}, "greater than or equal to 1"),
        ({"device_windows": {"own": DeviceWindow(ticks=100, scale=100.0)}}, "device_windows"),
        ({"windows": {"short": Window(ticks=100, method="mqm-exact")}, "adversary": "prior"}, "mqm-exact"),
        (
            {
                "theta": Assumption(
                    start=theta_message(BinaryTheta(0.1, 0.9, 0.1, 0.9)), floor=theta_message(FLOOR)
                )
            },
            "add up to at most 1",
        ),
    ],
)
def test_policies_ask_for_no_stride_that_is_not_priced(changes: dict[str, Any], says: str) -> None:
    """Each is refused by name."""
    with pytest.raises(ValidationError, match=says):
        strided(**changes)


def test_a_strided_stream_has_an_account_of_its_own() -> None:
    """Beside others it has to be independent, and there are no groups."""
    one, other = strided().streams[STREAM], stream_policy(adversary="informed")
    with pytest.raises(ValidationError, match="independent = true"):
        Policy(version=1, cohort="test", streams={STREAM: one, "other": other})
    with pytest.raises(ValidationError, match="groups"):
        Policy(version=1, cohort="test", streams={STREAM: one}, groups={"home": Group(devices=("d0", "d1"))})
    apart = one.model_copy(update={"independent": True})
    Policy(version=1, cohort="test", streams={STREAM: apart, "other": other})


def test_the_stride_of_a_stream_never_changes(tmp_path: Path) -> None:
    """Its ledger counts in strides."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(strided())
        here.adopt(strided(version=2, stride=4))
        assert "a stride of 5 is in the ledger and never changes" in here.log.getvalue()


@pytest.mark.parametrize("stride", [2, 5, 40])
def test_regions_of_strides_and_of_ticks(stride: int) -> None:
    """A region of ticks holds the chain of every chain in the region of its strides."""
    for q, r in itertools.product((0.01, 0.08, 0.4), (0.02, 0.11, 0.5)):
        steps = BinaryTheta.point(*thinned(q, r, stride))
        forth = for_strides(BinaryTheta.point(q, r), stride)
        assert (forth.q_low, forth.r_high) == pytest.approx((steps.q_low, steps.r_low), rel=1e-9)
        if (1 - q - r) ** stride > 1e-9:
            back = for_ticks(steps, stride)
            assert (back.q_low, back.r_high) == pytest.approx((q, r), rel=1e-4)
        near = BinaryTheta(steps.q_low * 0.9, min(0.999, steps.q_high * 1.1), steps.r_low * 0.9, steps.r_high)
        assert for_ticks(near, stride).contains(BinaryTheta.point(q, r))
    assert for_ticks(BinaryTheta(0.1, 0.7, 0.1, 0.8), stride).q_high == pytest.approx(0.7)


def test_the_chain_of_ticks_is_learned_from_strides() -> None:
    """Of devices that publish every eighth tick, the regions hold the chain of a tick, and are not wide."""
    q, r, stride = 0.06, 0.09, 8
    model, noise = (
        model_of(stream_policy(stride=stride, windows={"w": Window(ticks=stride)})),
        BinaryNoise(0.1, 0.1),
    )
    rng = np.random.default_rng(5)
    up, down = thinned(q, r, stride)
    pieces = {(f"d{n:02}", 1): [(0, _seen(rng, up, down, noise, 20_000))] for n in range(12)}
    count: WindowCount[Any, Any] = model.count(stream_policy(), pieces)
    rows = [
        (NoisyStatistics(one.device, one.noise, one.ticks, one.starts, one.groups, 1.0), noise)
        for one in count.statistics()
    ]
    fitted = model.fit(rows)
    assert fitted is not None
    region = fitted.cohort_region(0.95)
    assert region.contains(BinaryTheta.point(q, r))
    assert region.q_high / region.q_low < 1.5
    assert all(one.contains(BinaryTheta.point(q, r)) for one in fitted.device_regions(0.999).values())


def _seen(rng: np.random.Generator, up: float, down: float, noise: BinaryNoise, ticks: int) -> bytes:
    state, found = int(rng.random() < up / (up + down)), bytearray()
    draws, flips = rng.random(ticks), rng.random(ticks)
    for draw, flip in zip(draws, flips, strict=True):
        state ^= int(draw < (down if state else up))
        found.append(state ^ int(flip < (noise.rho1 if state else noise.rho0)))
    return bytes(found)


def test_the_error_of_what_is_not_published_is_stated() -> None:
    """The share of every eighth tick is off from that of all ticks by what is stated, or a little less."""
    q, r, stride, ticks = 0.06, 0.09, 8, 4000
    model = model_of(stream_policy(stride=stride, windows={"w": Window(ticks=ticks)}))
    stated = model.unseen_variance(BinaryTheta.point(q, r), ticks // stride)
    rng, off = random.Random(3), []
    for _ in range(400):
        state, path = 0, []
        for _ in range(ticks):
            state ^= rng.random() < (r if state else q)
            path.append(state)
        off.append(sum(path[3::stride]) / (ticks // stride) - sum(path) / ticks)
    found = sum(one * one for one in off) / len(off)
    assert math.sqrt(found) == pytest.approx(math.sqrt(stated), rel=0.12)
    assert model_of(stream_policy()).unseen_variance(BinaryTheta.point(q, r), 100) == 0.0
