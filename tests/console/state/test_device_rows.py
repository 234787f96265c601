"""The table of devices and the alarms: what is the matter, in words, and what to do."""

from __future__ import annotations

import time

from hushmq.broker.contract.messages import Refusal, Status
from hushmq.broker.contract.problem import Reason
from hushmq.console.state.alarms import WindowState, alarms, window_states
from hushmq.console.state.device_rows import chosen, device_rows
from hushmq.console.state.reasons import WORDS
from hushmq.console.state.rollout_state import rollout_state
from hushmq.console.store.device_facts import DeviceFacts
from tests.calibrator.site import STRANGER, policy, signed
from tests.console.conftest import Opened
from tests.console.site_messages import TOPICS, publish_stored, report, status


def test_every_reason_has_words() -> None:
    """A refusal is never a code only."""
    assert set(WORDS) == set(Reason)


def test_a_device_is_shown_with_what_is_the_matter(opened: Opened) -> None:
    """Behind, refusing, dropping, quarantined, left out, off line: each has its mark, its words, its alarm."""
    context = opened().context
    site = context.site
    publish_stored(site, context.database)
    wanted = site.version_for("motion", "d0")
    assert wanted is not None
    report(site, "well", status(noise=wanted))
    report(site, "behind", status(noise=wanted + 1))
    report(
        site, "refusing", status(noise=wanted, refused=Refusal(version=2, reason=Reason.EPSILON_ABOVE_CAP))
    )
    report(site, "dropping", status(noise=wanted))
    report(site, "dropping", status(noise=wanted, dropped=5))
    report(site, "gone", status(noise=wanted, buffered=7))
    report(site, "gone", Status(online=False))
    facts = {
        "bad": DeviceFacts(quarantine="tampered", until=time.time() + 9),
        "odd": DeviceFacts(left_out={"motion": "apart from the others"}),
    }
    rows = {row.name: row for row in device_rows(site, facts)}
    trouble = {name: row.trouble for name, row in rows.items()}
    assert trouble == {
        "well": None, "behind": "behind", "refusing": "refusing", "dropping": "dropping", "gone": "offline",
        "bad": "quarantined", "odd": "left-out",
    }  # fmt: skip
    assert rows["refusing"].why == ("refuses the policy: ε is above the device's own limit",)
    assert rows["gone"].buffered == 7
    assert rows["gone"].policy == 1
    signal = rows["well"].signal
    assert signal is not None
    assert 0 < signal < 1
    shown = chosen(list(rows.values()), filter_="all", text="", sort="state")
    assert [row.name for row in shown][:2] == ["bad", "refusing"]
    assert [row.name for row in chosen(list(rows.values()), filter_="online", text="be", sort="name")] == [
        "behind"
    ]
    site.set_connected(True)
    found = alarms(
        site, list(rows.values()), [], health=None, database_error=None, grace_s=1, now=time.time()
    )
    said = " ".join(one.words for one in found)
    for words in (
        "1 device refuses what was pushed: ε is above",
        "in quarantine",
        "left out",
        "dropping",
        "behind",
        "off line",
    ):
        assert words in said
    assert all(one.todo for one in found)
    history = [words for _, words in context.activity.of_device("gone")]
    assert history == ["off line", f"applied noise {wanted} of motion", "applied policy 1", "on line"]


def test_windows_that_do_not_close_raise_an_alarm() -> None:
    """A minute after the next window should have closed, and not before."""
    window = WindowState("motion", "hour", ticks=60, period_ms=1000, closed_to=600.0)
    assert window.due(10, now=601) == 670
    assert not window.overdue(10, now=729)
    assert window.overdue(10, now=731)
    assert not WindowState("motion", "hour", 60, 1000, None).overdue(10, now=1e9)


def test_a_policy_that_ops_did_not_sign_is_not_shown(opened: Opened) -> None:
    """Nor an older one than the one in force; both are counted or passed over."""
    site = opened().context.site
    site.receive(TOPICS.policy, signed(policy(5), STRANGER), False)
    assert site.public.policy is None
    assert site.rejected == 1
    site.receive(TOPICS.policy, signed(policy(5)), False)
    site.receive(TOPICS.policy, signed(policy(4)), False)
    assert site.public.policy is not None
    assert site.public.policy.version == 5
    site.receive("hush/1/elsewhere/policy", signed(policy(9, cohort="elsewhere")), False)
    assert site.public.policy.version == 5


def test_what_is_published_is_numbered_in_strides(opened: Opened) -> None:
    """Two ticks of a second each: the hundredth stride ends after 200 s, and a window lasts as long as ever."""
    site = opened().context.site
    site.receive(TOPICS.policy, signed(policy(stride=2)), True)
    report(site, "d0", status())
    (row,) = device_rows(site, {"d0": DeviceFacts(counted_to={"motion": 99})})
    assert (row.streams[0].stride, row.streams[0].counted_to) == (2, 200.0)
    (window,) = window_states(site, {("motion", "short", "cohort"): 99})
    assert (window.closed_to, window.length_s) == (200.0, 20.0)
    assert site.public.stride_ms("motion") == 2000


def test_a_device_that_is_to_wait_is_not_behind(opened: Opened) -> None:
    """While others apply a policy first it goes on with what it follows; the roll-out says that it waits."""
    context = opened().context
    publish_stored(context.site, context.database)
    report(context.site, "d0", status())
    report(context.site, "d1", status())
    staged = policy(2).model_copy(update={"first_devices": ("d0",)})
    context.site.receive(TOPICS.policy, signed(staged), True)
    rows = {row.name: row for row in device_rows(context.site, {})}
    assert "behind" in rows["d0"].marks
    assert "behind" not in rows["d1"].marks
    state = rollout_state(context.site, staged)
    assert state.counts["held back"] == 1
    assert state.first == ("d0",)
    assert state.applied == 0.0
