"""What a change of a policy would buy and cost."""

from __future__ import annotations

from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.forecast.what_if import more_in_words, what_if
from tests.calibrator.site import STREAM, WIDE, policy, stream_policy


def test_what_more_would_cost_is_what_it_costs() -> None:
    """Another window or stream means more noise, half the budget too, twice the budget less."""
    now, window, stream, double, half, operators = what_if(policy(), "motion", {"motion": WIDE}, 50)
    assert now.scale is not None
    for one in (window, half):
        assert one.scale is not None
        assert one.scale > 1.5 * now.scale
    assert now.half_width is not None
    assert stream.half_width is not None
    assert stream.half_width > now.half_width
    assert double.scale is not None
    assert double.scale < now.scale
    assert operators.half_width is not None
    assert operators.half_width < now.half_width
    assert operators.public == now.public


def test_one_line_says_it() -> None:
    """The figures are those of the table, rounded; nothing is said where nothing is released."""
    now, window, stream, double, *_ = what_if(policy(), STREAM, {STREAM: WIDE}, 50)
    assert more_in_words(policy(), STREAM, {STREAM: WIDE}, 50) == (
        f"a share of short is ±{now.half_width:.2g} (95%); with one more window like short ±{window.half_width:.2g}; "
        f"with one more stream like it ±{stream.half_width:.2g}; with ε of the public 2 ±{double.half_width:.2g}"
    )
    quiet = Policy(version=1, cohort="test", streams={STREAM: stream_policy(windows={})})
    assert more_in_words(quiet, STREAM, {STREAM: WIDE}, 50) is None


def test_what_is_not_possible_comes_last_with_its_reason() -> None:
    """A stream with a stride has an account of its own, unless ops say how it depends on others."""
    strided = policy(stride=4)
    said = more_in_words(strided, STREAM, {STREAM: WIDE}, 50)
    assert said is not None
    assert said.partition("one more stream like it: ")[2].startswith("not possible, streams.")
    assert "stride: above 1 a stream has an account of its own" in said
