"""What the demo shows fits the terminal it is shown on."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from hushmq.broker.contract.messages import Refusal, Status
from hushmq.broker.contract.problem import Reason
from hushmq.demo.demo_plan import STREAM, DemoPlan
from hushmq.demo.demo_view import WIDTH, Snapshot, render
from hushmq.demo.verdict import VerdictCheck
from tests.hushmq.demo import played


def snapshot(plan: DemoPlan, *, releases: int = 8) -> Snapshot:
    record = played.record(plan)
    record.releases = [played.release(entry) for entry in range(1, releases + 1)]
    truth = dict.fromkeys(range(1, releases + 1), 0.41)
    return Snapshot(
        plan=plan, record=record, truth=truth, elapsed=15.0, seconds=30.0, broker="nats on port 49975"
    )


def lines(shown: Snapshot, *checks: VerdictCheck, width: int = WIDTH, height: int | None = None) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(render(shown, checks, width=width, height=height))
    return console.export_text().splitlines()


@pytest.mark.parametrize("agents", [3, 8, 64])
@pytest.mark.parametrize(
    ("width", "height"), [(80, 24), (100, 24), (80, 50), (100, 30), (120, 40), (200, 60)]
)
def test_everything_is_in_sight(agents: int, width: int, height: int) -> None:
    """On any usual terminal the screen is no larger than it, and shows devices, Θ, noise, ledger and releases."""
    shown = lines(snapshot(played.plan(agents)), width=width, height=height)
    assert len(shown) < height
    assert max(map(len, shown)) <= width
    text = "\n".join(shown)
    for words in (
        "samples sanitized",
        "Θ learned",
        "0.20–0.40",
        "0.200",
        "1.500 of ε 2",
        "#8",
        "0.420 ± 0.010",
    ):
        assert words in text, words


def test_devices_have_lines_where_there_is_room() -> None:
    """A large terminal names every device, a small one counts them."""
    now = snapshot(played.plan(8))
    assert sum("wearable-" in line for line in lines(now, width=120, height=50)) == 8
    small = lines(now, width=80, height=24)
    assert not any("wearable-" in line for line in small)
    assert any("8,000 samples sanitized, 800 waiting; v2 on 8" in line for line in small)


def test_settings_of_single_devices_are_counted_apart() -> None:
    """The table lists the cohort's settings; device-specific settings are not in it."""
    plan = played.plan()
    now = snapshot(plan)
    now.record.settings[3] = played.setting(plan.cohort, 2).model_copy(
        update={"version": 3, "device": "wearable-1"}
    )
    shown = lines(now)
    assert not any("v3 " in line for line in shown)
    assert any("1 device has a device-specific setting" in line for line in shown)


def test_before_anything_has_happened() -> None:
    """Empty panels say what is being waited for."""
    plan = played.plan()
    empty = snapshot(plan, releases=0)
    empty.record.settings.clear()
    empty.record.ledger = None
    text = "\n".join(lines(empty))
    for words in (
        "no setting yet: nothing is published",
        "nothing charged yet",
        "the first window has not closed yet",
    ):
        assert words in text


def test_the_verdict_says_which_check_failed() -> None:
    """A failed check is marked, and the heading says that the loop did not close."""
    good, bad = VerdictCheck("this", True, "fine"), VerdictCheck("that", False, "not at all")
    assert any("the loop closed" in line for line in lines(snapshot(played.plan()), good))
    shown = lines(snapshot(played.plan()), good, bad)
    assert any("the loop did not close" in line for line in shown)
    assert any("✗ that" in line and "not at all" in line for line in shown)


def test_a_refusal_and_a_restart_are_shown() -> None:
    """What a person has to know about a device is beside it."""
    plan = played.plan()
    now = replace(snapshot(plan), restarts=2)
    refusing = played.stream_status(1).model_copy(
        update={"refused": Refusal(version=2, reason=Reason.BAD_SIGNATURE)}
    )
    now.record.statuses["wearable-1"] = Status(online=True, policy=1, streams={STREAM: refusing})
    text = "\n".join(lines(now))
    assert "2 restarts" in text
    assert "refused" in text
    assert any("1 refuse" in line for line in lines(now, width=80, height=24))
