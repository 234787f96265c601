"""A stream of four states from end to end: a real process, a real broker, and a peer that counts its batches."""

from __future__ import annotations

import io
import json
import math
import signal
import time
from collections import Counter
from pathlib import Path

from hushmq.agent.agent_config import load
from hushmq.agent.sources.simulated_source import SimulatedChain
from hushmq.agent.sources.source_config import SimulateStates
from hushmq.agent.status_socket import read_report
from hushmq.broker.contract.messages import Refusal, Release, decode
from hushmq.broker.contract.noise_message import CategoricalNoiseMessage
from hushmq.broker.contract.policy_message import DeviceWindow
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.activity import CHAIN, MARK, SIMULATED, STATES, activity_noise, activity_policy
from tests.agent.peer import Peer, wait_until, write_config
from tests.agent.running import process, running
from tests.agent.test_agent_commands import get
from tests.agent.test_device_windows import subscriber
from tests.agent.test_faults import balanced_at_the_end, more_counted, motion
from tests.agent.test_promise import REFUSED
from tests.agent.test_silence import NUMBER, TEXT, eavesdropper, everything_in, traces

PERIOD_MS = activity_policy().streams["motion"].period_ms
WINDOW = {"short": DeviceWindow(ticks=100, scale=20.0)}


def truth_of(config: Path) -> SimulatedChain:
    """Return the true states of the device."""
    source = load(config, {}).streams["motion"].source
    assert isinstance(source, SimulateStates)
    assert source.start_tick is not None
    return SimulatedChain(CHAIN, 7, source.start_tick)


def test_four_states_from_end_to_end(broker: BrokerProcess, tmp_path: Path) -> None:
    """The agent is killed and restarted without a broker: every tick is accounted for and used once, every state is
    one of the four with the noise of the setting, windows equal the truth up to their noise, and names of states occur
    only in the policy and in the field `states` of a release.
    """
    config, log = write_config(tmp_path, broker.port, source=SIMULATED), tmp_path / "log"
    setting = activity_noise(windows=0.1)
    with eavesdropper(broker) as heard, subscriber(broker) as released, Peer(broker) as peer:
        peer.push(activity_policy(device_windows=WINDOW))
        peer.push(setting)
        with process(config, log=log) as child:
            more_counted(peer, 500)
            before = max(peer.counted["motion"])
            child.kill()
            child.wait()
        broker.kill()
        with process(config, log=log) as child:
            wait_until(lambda: motion(config, "buffered") > 200)
            assert motion(config, "noise") == setting.version
            after = int(time.time() * 1000 / PERIOD_MS)
            broker.start()
            wait_until(lambda: sum(tick > after for tick in dict(peer.counted["motion"])) > 1000, 40)
            wait_until(lambda: len(set(released)) > 3)
            child.send_signal(signal.SIGTERM)
            assert child.wait(5) == 0
        wait_until(lambda: peer.status and not peer.status.online and peer.status.streams)
        assert peer.no_tick_was_made_twice()
        assert peer.status is not None
        said = peer.status.streams["motion"]
    # What was counted last may still be buffered where its `seen` came after the agent had ended.
    assert said.dropped == 0
    assert said.sampled - said.buffered <= peer.total() <= said.sampled
    assert {batch.bits for batch in peer.batches} == {2}
    assert {batch.noise for batch in peer.batches} == {setting.version}

    truth, seen = truth_of(config), Counter[tuple[int, int]]()
    for tick, state in sorted(peer.counted["motion"].items()):
        if not before < tick <= after:  # ticks of the absence are filled with the stand-in
            seen[truth.state(tick), state] += 1
    assert isinstance(setting.noise, CategoricalNoiseMessage)
    for state, row in enumerate(setting.noise.emission):
        shown = sum(seen[state, z] for z in range(4))
        assert shown > 100
        for z, probability in enumerate(row):
            band = 6 * math.sqrt(shown * probability * (1 - probability))
            assert abs(seen[state, z] - shown * probability) < band
    assert set(seen) <= {(x, z) for x in range(4) for z in range(4)}

    releases = [decode(Release, payload) for payload in set(released)]
    assert len({one.first for one in releases}) == len(releases)
    for one in releases:
        assert (one.states, one.tilt, one.adversary) == (STATES, 100_000_000, "prior")
        if one.ticks == 100:
            counts = Counter(truth.states(one.first, 100))
            assert all(abs(said - counts[state]) < 20 * 40 for state, said in enumerate(one.counts))  # e^-40

    lines = [line for line in heard if not line.startswith((b"hush/1/test/policy", b"hush/1/test/release"))]
    assert len(lines) > 20
    assert [line for line in lines if MARK in line] == []
    device = tmp_path / "state"
    for path, content in [*everything_in(device), (log, log.read_bytes())]:
        if path != device / "settings" / "policy.json":
            assert not raw_in(content), path


def test_weaker_settings_are_refused_on_the_wire(broker: BrokerProcess, tmp_path: Path) -> None:
    """`status` reports each with its reason, no tick is perturbed with it, and the next valid setting is applied."""
    with Peer(broker) as peer:
        peer.push(activity_policy(3))
        peer.push(activity_noise(5, policy=3))
        with process(write_config(tmp_path, broker.port, source=SIMULATED), log=tmp_path / "log") as child:
            more_counted(peer, 50)
            for number, (setting, reason) in enumerate(REFUSED.values()):
                bad = setting.model_copy(update={"version": 6 + number})
                refusal = Refusal(version=bad.version, reason=reason)
                peer.push(bad)
                wait_until(
                    lambda refusal=refusal: peer.status and peer.status.streams["motion"].refused == refusal
                )
            more_counted(peer, 50)
            assert {batch.noise for batch in peer.batches} == {5}
            peer.push(activity_noise(6 + len(REFUSED), policy=3))
            wait_until(lambda: peer.batches[-1].noise == 6 + len(REFUSED))
            child.send_signal(signal.SIGTERM)
            assert child.wait(5) == 0
        balanced_at_the_end(peer)


HEADINGS = ",".join(f'"{name}"' for name in STATES).encode()


def raw_in(content: bytes) -> bool:
    """Whether a state's name occurs outside the list of names in a release that waits to be sent."""
    return MARK in content.replace(HEADINGS, b"")


def test_the_search_would_find_a_name() -> None:
    """The search ignores the names listed in a release, and finds a name elsewhere."""
    assert not raw_in(b'"states":[' + HEADINGS + b"]")
    assert raw_in(b'"states":[' + HEADINGS + b'] "walking-marked"')


def test_labels_of_many_states_appear_nowhere(broker: BrokerProcess, tmp_path: Path) -> None:
    """Labels (refused ones, near misses, and the names of the states) occur nowhere, except for the names of the states
    in the policy.
    """
    log = io.StringIO()
    config = write_config(tmp_path, broker.port, source='kind = "offer"', sections="[metrics]\nport = 0")
    device = tmp_path / "state"
    with eavesdropper(broker) as heard, Peer(broker) as peer:
        peer.push(activity_policy())
        peer.push(activity_noise())
        with running(config, log=log) as agent:
            wait_until(lambda: peer.status is not None and peer.status.online)

            def feed(target: int) -> bool:
                for value in (*STATES, TEXT, *(name.upper() for name in STATES), NUMBER, True, int(NUMBER)):
                    agent.offer(value)
                agent.offer(STATES[peer.total() % 4])
                return peer.total() > target

            wait_until(lambda: feed(200))

            def refused() -> bool:
                agent.offer(TEXT)
                return "values_refused" in log.getvalue()

            wait_until(refused)
            broker.kill()
            for _ in range(50):
                feed(0)
            broker.start()
            enough = peer.total() + 50
            wait_until(lambda: feed(enough))
            said = get(agent.metrics_port, "/metrics")[1] + json.dumps(read_report(device)) + repr(agent)
        wait_until(lambda: peer.status is not None and not peer.status.online and peer.balanced())
    spoken = [line for line in heard if not line.startswith(b"hush/1/test/policy")]
    assert any(MARK in line for line in heard)
    files = [(path, content) for path, content in everything_in(device) if path.name != "policy.json"]
    for where, content in [("log", log.getvalue().encode()), ("said", said.encode()), *files]:
        assert [*traces(content), *([MARK] if MARK.lower() in content.lower() else [])] == [], where
    assert [line for line in spoken if traces(line) or MARK in line] == []
