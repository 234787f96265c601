"""What can be had of the streams of a policy."""

from __future__ import annotations

import json

from hushmq.broker.contract.messages import Batch, encode
from hushmq.broker.contract.policy_message import Policy, Window
from hushmq.broker.forecast.message_traffic import traffic
from hushmq.broker.forecast.stream_plan import plan_policy
from tests.calibrator.site import stream_policy


def test_a_plan_is_wide_at_first_and_better_when_learned() -> None:
    """Under the start nothing is more exact than under the floor; warnings are about the best that can be had."""
    policy = stream_policy(windows={"tiny": Window(ticks=3), "long": Window(ticks=40_000)})
    (plan,) = plan_policy(
        Policy(version=1, cohort="test", streams={"motion": policy}), {"motion": 2}
    ).values()
    pairs = list(zip(plan.first_windows, plan.best_windows, strict=True))
    assert [one.window for one, _ in pairs] == ["tiny", "long"]
    assert all(best.half_width <= first.half_width for first, best in pairs)
    (warning,) = plan.warnings()
    assert warning.startswith("window tiny for the cohort of 2 tells less than no data")
    assert json.loads(json.dumps(plan.as_tree(), allow_nan=False))["odds"].keys() == {"operator", "public"}


def test_traffic_is_that_of_encoded_batches() -> None:
    """A day of ten-second batches of 500 ms: 8640, each as many bytes as an encoded one and its headers."""
    policy = stream_policy(period_ms=500, windows={"hour": Window(ticks=7200, scopes=("cohort", "device"))})
    found = traffic(policy, stream="motion", device="ring")
    assert (found.batches, found.releases) == (8640, 48)
    one = Batch(first=3_400_000_000, after=3_399_999_999, count=20, states="AAAA", noise=1)
    packet = len(encode(one)) + len("hush/1/test/z/0/ring/motion") + 6
    assert found.bytes == 8640 * packet
