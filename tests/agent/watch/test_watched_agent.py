"""An agent whose states do not behave like Θ, on a real broker."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hushmq.agent.daemon import AgentDaemon
from hushmq.agent.device_report import metrics
from hushmq.agent.sources.beat_schedule import BeatSchedule
from hushmq.agent.sources.resample import Resampler
from hushmq.agent.sources.source import OfferedSource
from hushmq.agent.sources.tick import tick_at
from hushmq.agent.status_socket import read_report
from hushmq.agent.stream import Stream
from hushmq.agent.watch import stream_watch
from hushmq.agent.watch.raised_alarms import RaisedAlarms
from hushmq.broker.contract.messages import Batch, decode, encode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.packing import unpack
from hushmq.broker.contract.policy_message import Assumption
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.clocks import MS, Hands
from tests.agent.peer import NARROW, WIDE, Peer, noise, policy, stream_policy, wait_until, write_config
from tests.agent.running import running
from tests.agent.test_stream import PERIOD_MS, started

OFFERED = 'kind = "offer"'
BEATS = BeatSchedule(10 * PERIOD_MS)
STUCK = 90.0
"""A reading in state `high` that never changes."""


@pytest.fixture(autouse=True)
def short_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream stops at a multiple of a tenth of a second."""
    monkeypatch.setattr(stream_watch, "COARSE_MS", 100)


def stream_of(agent: AgentDaemon) -> dict[str, Any]:
    report = agent.report()
    assert report is not None
    return dict(report.as_dict()["streams"]["motion"])


def after_statuses(peer: Peer, count: int) -> Callable[[], bool]:
    """Whether so many statuses were published from now on: some beats have passed."""
    since = len(peer.statuses)
    return lambda: len(peer.statuses) >= since + count


def test_a_stop_survives_a_restart_and_ends_with_another_theta(nats: BrokerProcess, tmp_path: Path) -> None:
    log = io.StringIO()
    config = write_config(tmp_path / "device", nats.port, source=OFFERED)
    with Peer(nats) as peer:
        peer.push(policy(outside_theta="stop"))
        peer.push(noise())
        with running(config, log=log) as agent:
            wait_until(lambda: stream_of(agent)["noise"] == 1)
            agent.offer(STUCK)
            wait_until(lambda: "alarm_raised" in log.getvalue())
            wait_until(lambda: peer.balanced() and stream_of(agent)["buffered"] == 0)
            wait_until(after_statuses(peer, 3))
            sent = peer.total()
            assert sent > 100
            wait_until(after_statuses(peer, 5))
            assert peer.total() == sent
            assert "stops at the end of the hour" in stream_of(agent)["outside_theta"]
        assert "states_outside_theta" in log.getvalue()
        with running(config) as agent:
            wait_until(lambda: stream_of(agent)["noise"] == 1)
            agent.offer(60.0)
            wait_until(after_statuses(peer, 5))
            assert peer.total() == sent
            assert stream_of(agent)["outside_theta"]
            peer.push(policy(2, outside_theta="stop", theta=Assumption(start=WIDE, floor=WIDE)))
            peer.push(noise(2, policy=2))
            wait_until(lambda: peer.total() > sent)
            assert stream_of(agent)["ticks_watched"] < 500
        assert peer.no_tick_was_made_twice()
        for status in peer.statuses:
            assert not any(word in encode(status) for word in (b"theta", b"alarm", b"outside"))


def test_a_warning_stays_on_the_device(nats: BrokerProcess, tmp_path: Path) -> None:
    """It is in the log and in `hushmq agent status`, not in a topic, a metric or a file; publishing goes on."""
    log = io.StringIO()
    config = write_config(tmp_path / "device", nats.port, source=OFFERED)
    with Peer(nats) as peer:
        peer.push(policy())
        peer.push(noise())
        with running(config, log=log) as agent:
            wait_until(lambda: stream_of(agent)["noise"] == 1)
            agent.offer(STUCK)
            wait_until(lambda: "alarm_raised" in log.getvalue())
            sent = peer.total()
            wait_until(lambda: peer.total() > sent + 100)
            said = read_report(tmp_path / "device" / "state")
            assert said is not None
            assert "published as before" in said["streams"]["motion"]["outside_theta"]
            report = agent.report()
            assert report is not None
            assert not any(word in metrics(report) for word in ("theta", "alarm", "watched", "reading"))
        assert not (tmp_path / "device" / "state" / "alarms.json").exists()
        for status in peer.statuses:
            assert not any(word in encode(status) for word in (b"theta", b"alarm", b"outside"))
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    found = [event for event in events if event["event"] in {"states_outside_theta", "alarm_raised"}]
    assert [event["event"] for event in found] == ["states_outside_theta", "alarm_raised"]
    assert all(event.keys() <= {"event", "level", "timestamp", "stream", "action"} for event in found)


def test_the_stand_in_is_published_under_the_same_headers() -> None:
    """Every tick, in batches of the same form: what changes are bits, which the noise hides."""
    hands, stream, source = started(outside_theta="stand-in")
    # So little noise that a glance tells what was perturbed; the device would refuse it.
    stream.use(noise(noise=BinaryNoiseMessage(rho0=1e-6, rho1=1e-6)), -1)
    source.offer(STUCK)
    ones: list[float] = []
    shapes = set()
    for _ in range(40):
        hands.run(50 * PERIOD_MS)
        (made,) = stream.beat(-1, BeatSchedule(50 * PERIOD_MS)).made
        batch = decode(Batch, made.payload)
        shapes.add((len(made.payload), batch.noise, batch.bits))
        ones.append(sum(unpack(batch.states, batch.count, batch.bits)) / batch.count)
    raised = next(n for n, share in enumerate(ones) if share < 0.5)
    assert ones[:raised] == [1.0] * raised
    assert ones[raised:] == [0.0] * (40 - raised)
    assert 100 <= 50 * raised <= 1000
    assert len(shapes) == 1


def test_the_theta_of_the_setting_in_force_is_watched() -> None:
    """A setting with another Θ begins anew; one that differs in its noise only does not."""
    hands, stream, source = started()
    stream.use(noise(), -1)
    source.offer(STUCK)
    hands.run(100 * PERIOD_MS)
    stream.beat(-1, BEATS)
    watched = stream.watch.ticks
    assert watched >= 99
    stream.use(noise(2, epsilon=1.0), -1)
    assert stream.watch.ticks == watched
    stream.use(noise(3, theta=NARROW), -1)
    assert stream.watch.ticks == 0


def test_readings_that_are_refreshed_seldom_are_noticed() -> None:
    """Said with the remedy, before the states themselves prove anything."""
    hands, stream, source = started()
    stream.use(noise(), -1)
    for refresh in range(7):
        assert stream.repeated_readings is None, refresh
        source.offer(60.0)
        hands.run(20 * PERIOD_MS)
        stream.beat(-1, BEATS)
    said = stream.repeated_readings
    assert said is not None
    assert f"period_ms = {20 * PERIOD_MS}" in said


def test_a_minute_s_reading_at_2_hz_is_noticed_in_minutes() -> None:
    """The finding: each reading is published 120 times. Both signs show within fifteen readings."""
    hands, stream, source = started()
    stream.use(noise(), -1)
    generator = random.Random(2)
    for _ in range(15):
        source.offer(generator.choice([60.0, STUCK]))
        hands.run(120 * PERIOD_MS)
        stream.beat(-1, BEATS)
    assert stream.watch.outside
    assert f"period_ms = {120 * PERIOD_MS}" in (stream.repeated_readings or "")


def test_ticks_without_a_value_are_not_compared() -> None:
    """Neither those before the first value of a source nor those of an absence: the path begins anew after them."""
    hands, stream, source = started(fill_s=3600)
    stream.use(noise(), -1)
    for _ in range(20):
        hands.run(100 * PERIOD_MS)
        assert stream.beat(-1, BEATS).made
    assert not stream.watch.warned
    source.offer(STUCK)
    hands.run(20 * PERIOD_MS)
    stream.beat(-1, BEATS)
    hands.wall_ns += 4000 * PERIOD_MS * MS  # the device slept
    stream.beat(-1, BEATS)
    assert not stream.watch.warned
    hands.run(1000 * PERIOD_MS)
    stream.beat(-1, BEATS)
    assert stream.watch.outside


def test_refused_values_are_compared() -> None:
    """Each is perturbed as the stand-in, so it is a state like any other: refused for ever, it is stuck."""
    hands, stream, source = started()
    stream.use(noise(), -1)
    source.offer("neither number nor state")
    hands.run(1000 * PERIOD_MS)
    stream.beat(-1, BEATS)
    assert stream.watch.outside


def test_ticks_missed_while_a_stream_is_stopped_are_not_filled() -> None:
    """After a restart too: a raised alarm lets nothing be published, whatever was missed."""
    hands = Hands()
    source = OfferedSource(Resampler(hands.clock(), PERIOD_MS))
    policy_ = stream_policy(outside_theta="stop", fill_s=3600)
    stream = Stream("motion", source, policy_, clock=hands.clock(), stop_from=0)
    watermark = tick_at(hands.wall_ns, PERIOD_MS) - 500
    stream.use(noise(), watermark, resume=True)
    hands.run(100 * PERIOD_MS)
    beat = stream.beat(watermark, BEATS)
    assert beat.elapsed is not None
    assert beat.elapsed.missed > 400
    assert (beat.made, beat.closed) == ([], [])


def test_restarted_within_the_hour_of_its_alarm_a_stream_goes_on_to_its_end(tmp_path: Path) -> None:
    """It would otherwise show when it was restarted, and how long before the end of the hour the alarm was raised."""
    hands = Hands()
    policy_ = stream_policy(outside_theta="stop", fill_s=7200)
    now = tick_at(hands.wall_ns, PERIOD_MS)
    alarms = RaisedAlarms(tmp_path)
    alarms.add("motion", policy_, now + 150)
    stream = Stream(
        "motion",
        OfferedSource(Resampler(hands.clock(), PERIOD_MS)),
        policy_,
        clock=hands.clock(),
        stop_from=RaisedAlarms(tmp_path).stop_from("motion", policy_),
    )
    stream.use(noise(), now - 100, resume=True)
    last = now - 100
    for _ in range(4):
        hands.run(100 * PERIOD_MS)
        for made in stream.beat(last, BEATS).made:
            assert made.first == last + 1
            last = made.last
    assert last == now + 149
