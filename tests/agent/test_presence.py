"""What leaves a device, and when, is a function of policy, configuration and clock: a pattern in time is in no message.

Every kind of source is run twice over the same stretch of time, once with a constant input and once with a pattern of
values that come, stay away, change, cannot be read or match no state. Batch headers, sizes, order, the beats in which
messages leave, `status`, releases and metrics have to be the same; the states, before noise, are not.
"""

from __future__ import annotations

import os
import pty
import tty
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hushmq.agent.discretise import BinsDiscretiser, LabelsDiscretiser
from hushmq.broker.contract.messages import Batch, Status, decode
from hushmq.broker.contract.policy_message import DeviceWindow, Labels, Policy, Threshold
from hushmq.broker.contract.topics import Topics
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.clocks import MS, Hands
from tests.agent.peer import noise, policy, sign, wait_until, write_config
from tests.agent.transcript import Driven, Sent, Wire, driven, store_settings
from tests.broker.plain import Plain

PERIOD_MS, BEAT_MS = 100, 1_000
MARKER = "101100111000101101"
"""The pattern: in a beat with 1 something happens, in one with 0 nothing."""
LINES = [b"90", b"nan", b"60", b"-inf", b"neither number nor label", b"", b"90"]
LABELS = [b"high", b"dancing", b"low", b"", b"41", b"high"]
WINDOWS = {"minute": DeviceWindow(ticks=40, scale=20.0)}
Say = Callable[[bytes], object]


@contextmanager
def standard_input(folder: Path) -> Iterator[Say]:
    """A pipe in the place of this process's standard input."""
    ours = os.dup(0)
    read, write = os.pipe()
    os.dup2(read, 0)
    os.close(read)
    try:
        yield lambda line: os.write(write, line + b"\n")
    finally:
        os.close(write)
        os.dup2(ours, 0)
        os.close(ours)


@contextmanager
def followed_file(folder: Path) -> Iterator[Say]:
    def append(line: bytes) -> None:
        with (folder / "values").open("ab") as file:
            file.write(line + b"\n")

    (folder / "values").touch()
    yield append


@contextmanager
def serial_port(folder: Path) -> Iterator[Say]:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    (folder / "port").unlink(missing_ok=True)
    (folder / "port").symlink_to(os.ttyname(theirs))
    try:
        yield lambda line: os.write(ours, line + b"\n")
    finally:
        os.close(ours)
        os.close(theirs)


FED: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "stdin": ('kind = "stdin"', standard_input),
    "file": ('kind = "file"\nfile = "FOLDER/values"', followed_file),
    "serial": ('kind = "serial"\nport = "FOLDER/port"', serial_port),
}
"""By kind of source: its configuration, and how it is fed."""


def settled(config: Path, form: str, **changes: Any) -> None:
    """Store a policy and a noise setting for it."""
    discretiser = Threshold(at=75.0, hysteresis=1.0) if form == "number" else Labels()
    fields = {"period_ms": PERIOD_MS, "discretiser": discretiser, "device_windows": WINDOWS} | changes
    store_settings(config, policy(**fields), noise(epsilon=1.0))


def everything_sent(
    folder: Path, source: str, form: str, feed: Callable[[Driven, int], None]
) -> tuple[list[Sent], list[int]]:
    """Run an agent for as many beats as the marker has; it is killed and absent for three beats in the middle.

    Returns what was sent, and the states before noise.
    """
    states: list[int] = []
    config = write_config(
        folder,
        source=source if "offer" in source or "simulate" in source else f'{source}\nform = "{form}"',
        publish=f"beat_ms = {BEAT_MS}",
    )
    settled(config, form)
    hands, wire = Hands(), Wire()
    with pytest.MonkeyPatch.context() as patch:
        for owner in (BinsDiscretiser, LabelsDiscretiser):

            def spied(self: Any, values: Any, real: Any = owner.states) -> list[int]:
                found: list[int] = real(self, values)
                states.extend(found)
                return found

            patch.setattr(owner, "states", spied)
        half = len(MARKER) // 2
        for part in (range(half), range(half, len(MARKER))):
            with driven(config, hands, wire) as agent:
                for number in part:
                    feed(agent, number)
                    hands.run(BEAT_MS)
                    agent.beat()
            hands.run(3 * BEAT_MS)
    return wire.sent, states


def fed(say: Say, lines: list[bytes], *, constant: bool) -> Callable[[Driven, int], None]:
    """Feed a constant value once, or the lines in turn in the beats that the marker names."""

    def feed(agent: Driven, number: int) -> None:
        if constant and number in {0, len(MARKER) // 2}:
            said(agent, lines[0])
        elif not constant and MARKER[number] == "1":
            said(agent, lines[MARKER[:number].count("1") % len(lines)])

    def said(agent: Driven, line: bytes) -> None:
        """Say a line until the source has it: it may not have opened its input yet."""
        before = agent.source.unreadable, list(agent.source._resampler._arrived)

        def heard() -> bool:
            say(line)
            return not line or before != (agent.source.unreadable, list(agent.source._resampler._arrived))

        wait_until(heard)

    return feed


def compared(runs: list[tuple[list[Sent], list[int]]]) -> None:
    """Whether all runs sent the same, although their states differ; and something of every kind was sent."""
    (first, constant), *others = runs
    kinds = {topic.split("/")[3] if "/" in topic else topic for _, topic, _, _ in first}
    assert kinds == {"z", "status", "release", "metrics"}
    for sent, states in others:
        assert states != constant
        assert len(states) == len(constant)
        assert sent == first


@pytest.mark.parametrize("form", ["number", "label"])
@pytest.mark.parametrize("kind", ["stdin", "file", "serial", "mqtt"])
def test_a_pattern_in_time_is_nowhere(
    kind: str, form: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lines, runs = (LINES if form == "number" else LABELS), []
    for constant in (True, False):
        folder = tmp_path / str(constant)
        folder.mkdir()
        with ExitStack() as stack:
            if kind == "mqtt":
                gateway = request.getfixturevalue("gateway")
                source, say = subscribed(stack, gateway, folder)
            else:
                source, feeding = FED[kind]
                source = source.replace("FOLDER", str(folder))
                say = stack.enter_context(feeding(folder))
            runs.append(everything_sent(folder, source, form, fed(say, lines, constant=constant)))
    compared(runs)


def subscribed(stack: ExitStack, gateway: BrokerProcess, folder: Path) -> tuple[str, Say]:
    password = folder / "gateway-password"
    password.touch(mode=0o600)
    password.write_text("home-secret")
    plain = stack.enter_context(Plain(gateway.endpoint("home")))
    source = f'kind = "mqtt"\nurl = "{gateway.endpoint("home").url}"\ntopic = "zigbee2mqtt/front_door"'
    source += f'\nusername = "home"\npassword_file = "{password}"'
    return source, lambda line: plain.publish("zigbee2mqtt/front_door", line)


@pytest.mark.parametrize("form", ["number", "label"])
def test_a_pattern_in_offered_values_is_nowhere(tmp_path: Path, form: str) -> None:
    """Also values of types that no text has."""
    lines: list[Any] = (
        [90.0, float("nan"), 60, "low", 10**400, True]
        if form == "number"
        else ["high", "no", 7, "low", False]
    )
    runs = []
    for constant in (True, False):

        def feed(agent: Driven, number: int, constant: bool = constant) -> None:
            if constant:
                agent.agent.offer(lines[0])
            elif MARKER[number] == "1":
                agent.agent.offer(lines[MARKER[:number].count("1") % len(lines)])

        runs.append(everything_sent(tmp_path / str(constant), 'kind = "offer"', form, feed))
    compared(runs)


def nothing(_agent: Driven, _number: int) -> None:
    """The source has its values by itself."""


@pytest.mark.parametrize("form", ["number", "label"])
def test_a_pattern_in_a_recording_is_nowhere(tmp_path: Path, form: str) -> None:
    """Empty rows, rows that cannot be read, rows that match no state, and a recording that ends early."""
    runs, lines = [], (LINES if form == "number" else LABELS)
    recordings = [lines[0] + b"\n"] * 400, [lines[n % len(lines)] + b"\n" for n in range(70)]
    for name, rows in zip(("constant", "marked"), recordings, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows").write_bytes(b"".join(rows))
        source = f'kind = "file"\nfile = "{tmp_path / name / "rows"}"\nreplay = true'
        runs.append(everything_sent(tmp_path / name, source, form, nothing))
    compared(runs)


def test_a_pattern_in_a_simulated_chain_is_nowhere(tmp_path: Path) -> None:
    """One that starts later, one whose values match no state, one that is too old to be simulated."""
    began = Hands().wall_ns // (PERIOD_MS * 1_000_000)
    chain = 'kind = "simulate-states"\ntransition = [[0.5, 0.5], [0.5, 0.5]]\nseed = 3\n'
    sources = {
        "constant": f'{chain}values = ["low", "low"]\nstart_tick = {began}',
        "later": f'{chain}values = ["high", "high"]\nstart_tick = {began + 60}',
        "refused": f'{chain}values = ["high", "dancing"]\nstart_tick = {began}',
    }
    compared([everything_sent(tmp_path / name, source, "", nothing) for name, source in sources.items()])


def test_a_source_that_cannot_be_opened_looks_like_any_other(tmp_path: Path) -> None:
    """The recording is gone when the agent opens it."""
    runs = []
    for present in (True, False):
        folder = tmp_path / str(present)
        folder.mkdir()
        (folder / "rows").write_text("high\n" * 400)

        def vanish(agent: Driven, number: int, present: bool = present, folder: Path = folder) -> None:
            assert (agent.source.trouble is None) == present

        with pytest.MonkeyPatch.context() as patch:
            if not present:
                patch.setattr("hushmq.agent.agent_config.check_source", lambda *_: None)
                (folder / "rows").unlink()
            source = f'kind = "file"\nfile = "{folder / "rows"}"\nreplay = true'
            runs.append(everything_sent(folder, source, "label", vanish))
    compared(runs)


def door_policy() -> Policy:
    aliases = {"true": "closed", "false": "open"}
    return policy(
        states=("closed", "open"), period_ms=1_000, discretiser=Labels(aliases=aliases), stand_in="closed"
    )


def events_read_off(batches: list[Batch]) -> list[int]:
    """The attack: an event is where a run of ticks begins or ends other than on the beat."""
    found = []
    for batch in batches:
        if batch.after is not None and batch.first != batch.after + 1:
            found += [batch.after, batch.first]
    sizes = [batch.count for batch in batches[1:]]
    usual = max(set(sizes), key=sizes.count)
    return found + [batch.first for batch in batches[1:] if batch.count != usual]


def test_no_event_of_a_door_can_be_read_off_the_headers(gateway: BrokerProcess, tmp_path: Path) -> None:
    """The documented zigbee2mqtt door sensor, which reports on change: 24 of its 24 events were readable before."""
    events, minutes = 24, 3
    hands, wire = Hands(wall_ns=10**18), Wire()
    with ExitStack() as stack:
        source, say = subscribed(stack, gateway, tmp_path)
        source += '\nform = "json"\njson_path = "contact"'
        config = write_config(tmp_path, source=source, publish="beat_ms = 30000")
        store_settings(config, door_policy(), noise())
        agent = stack.enter_context(driven(config, hands, wire))
        wait_until(lambda: agent.source.trouble is None)
        opened = []
        for number in range(events):
            say(b'{"contact": %s, "battery": 97}' % (b"true", b"false")[number % 2])
            wait_until(lambda: agent.source._resampler._arrived)
            opened.append(hands.wall_ns // 10**9)
            for _ in range(2 * minutes):
                hands.run(30_000)
                agent.beat()
        hands.run(30_000)
        agent.beat()
    # Without a calibrator nothing is seen, so the first ones are sent again and again, with the same bytes.
    batches = [decode(Batch, payload) for payload in dict.fromkeys(wire.batches)]
    assert sum(batch.count for batch in batches) > events * minutes * 60 - 60
    assert all(any(batch.first <= tick <= batch.last for batch in batches) for tick in opened[1:])
    assert events_read_off(batches) == []


def test_a_restart_within_the_limit_leaves_no_trace_where_presence_is_hidden(tmp_path: Path) -> None:
    """Batches, `status` and releases of an agent that was off for twenty beats are those of one that was not.

    What its batches tell is the same, message by message; they leave later, which no retained topic shows.
    """
    transcripts = []
    for off in (False, True):
        folder = tmp_path / str(off)
        config = write_config(
            folder, source='kind = "offer"', publish=f'beat_ms = {BEAT_MS}\npresence = "hidden"'
        )
        settled(config, "number")
        hands, wire = Hands(), Wire()
        with driven(config, hands, wire) as agent:
            for number in range(20):
                agent.agent.offer(60.0 + number)
                hands.run(BEAT_MS)
                agent.beat()
            if off:
                agent.agent._finish()
            else:
                for _ in range(20):
                    hands.run(BEAT_MS)
                    agent.beat()
        if off:
            hands.run(20 * BEAT_MS)
        with driven(config, hands, wire) as agent:
            for _ in range(20):
                agent.agent.offer(90.0)
                hands.run(BEAT_MS)
                agent.beat()
        transcripts.append([(topic, what) for _, topic, what, _ in wire.sent if topic != "metrics"])
    without_status = [[one for one in each if "/status/" not in one[0]] for each in transcripts]
    counts = [len([one for one in each if "/z/" in one[0]]) for each in without_status]
    assert min(counts) > 50
    assert sorted(set(without_status[0])) == sorted(set(without_status[1]))
    for each in transcripts:
        statuses = [decode(Status, what.encode()) for topic, what in each if "/status/" in topic]
        assert statuses
        assert all(status.online is None for status in statuses)


def test_a_setting_is_carried_by_no_tick_long_before_it_where_presence_is_hidden(tmp_path: Path) -> None:
    """Beats of two minutes: a setting that comes between two of them is followed right after the next.

    Batches are as long as ever, and the calibrator, which allows for clocks a minute apart, refuses none of them.
    """
    config = write_config(tmp_path, source='kind = "offer"', publish='beat_ms = 120000\npresence = "hidden"')
    store_settings(config, policy(period_ms=1000), noise(1))
    hands, wire, came_ms = Hands(), Wire(), 0
    with driven(config, hands, wire) as agent:
        schedule = agent.agent._schedule
        hands.run(schedule.wait_ns(hands.wall_ns) // MS)
        for number in range(12):
            agent.beat()
            hands.run(100_000)
            if number == 5:
                came_ms = hands.wall_ns // MS
                agent.agent._on_message(Topics("test").noise("motion"), sign(noise(2)))
                assert agent.agent._settings.noise["motion"].version == 2
            hands.run(20_000)
    batches = [decode(Batch, payload) for payload in dict.fromkeys(wire.batches)]
    assert {batch.count for batch in batches[1:]} == {120}
    firsts = {version: [one.first for one in batches if one.noise == version] for version in (1, 2)}
    assert max(firsts[1]) + 120 == min(firsts[2])
    assert min(firsts[2]) * 1000 > came_ms - 60_000


def test_a_status_is_sent_at_fixed_moments_where_presence_is_hidden(tmp_path: Path) -> None:
    """Neither a start, a reconnect, a refused setting nor a stop makes one; the next moment of the schedule does."""
    publish = f'beat_ms = {BEAT_MS}\npresence = "hidden"'
    config = write_config(tmp_path, source='kind = "offer"', publish=publish)
    config.write_text(config.read_text().replace("status_ms = 100", "status_ms = 7000"))
    settled(config, "number")
    hands, wire = Hands(), Wire()
    with driven(config, hands, wire) as agent:
        assert agent.agent._connect(agent.agent._config)._will is None
        for _ in range(40):
            agent.agent._on_change(True)
            agent.agent._on_message(Topics("test").policy, b"refused")
            hands.run(BEAT_MS)
            agent.beat()
        agent.agent._finish()
    beats = [beat for beat, topic, _, _ in wire.sent if "/status/" in topic]
    assert len(beats) in {5, 6}
    assert {later - earlier for earlier, later in pairwise(beats)} == {7}


def test_releases_state_all_ticks_of_their_windows(tmp_path: Path) -> None:
    """Also of the window in which the agent began, and of those in which it was off."""
    sent, _ = everything_sent(tmp_path, 'kind = "offer"', "number", nothing)
    releases = [what for _, topic, what, _ in sent if "/release/" in topic]
    assert len(releases) >= 4
    assert all('"ticks": 40' in what for what in releases)


def test_a_silent_source_is_reported_on_the_device_only(tmp_path: Path) -> None:
    """`silent_after_ms` shows in the local report; nothing that leaves the device differs."""
    runs = []
    for name, setting in (("none", ""), ("some", "\nsilent_after_ms = 5000")):
        hints: list[int | None] = []

        def feed(agent: Driven, number: int, hints: list[int | None] = hints) -> None:
            if number == 0:
                agent.agent.offer(90.0)
            hints.append(agent.agent._report().streams["motion"].silent_s)

        sent, _ = everything_sent(tmp_path / name, f'kind = "offer"{setting}', "number", feed)
        runs.append((sent, hints))
    assert runs[0][0] == runs[1][0]
    assert set(runs[0][1]) == {None}
    assert runs[1][1][:9] == [None] * 5 + [5, 6, 7, 8]
