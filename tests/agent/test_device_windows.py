"""Releases that the device makes."""

from __future__ import annotations

import io
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.agent.accept_settings import Settings
from hushmq.agent.device_windows import ClosedWindow, WindowCounter, release
from hushmq.agent.sources.simulated_source import SimulatedChain
from hushmq.agent.storage.outbox import Outbox
from hushmq.agent.storage.outbox_releases import RELEASES, MadeRelease
from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.operator_loss import windows_loss
from hushmq.broker.contract.policy_message import Audiences, DeviceWindow
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss
from tests.agent.activity import START, STATES, activity_noise, activity_policy
from tests.agent.peer import DEVICE, WIDE, Peer, noise, policy, sign, stream_policy, wait_until, write_config
from tests.agent.running import process
from tests.agent.test_accept_settings import NOISE, POLICY, fresh
from tests.agent.test_faults import CRASH


@given(
    st.integers(1, 7),
    st.integers(0, 50),
    st.lists(
        st.tuples(st.integers(0, 9), st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=20)),
        max_size=8,
    ),
    st.integers(0, 2),
)
def test_a_window_counts_exactly_its_ticks_however_beats_fall(
    length: int, first: int, beats: list[tuple[int, list[int]]], stand_in: int
) -> None:
    """The counter agrees with a model that sorts every tick into its window, where ticks left out are the stand-in."""
    counter, tick = WindowCounter("hour", length, 3, stand_in), first
    closed: list[ClosedWindow] = []
    model: dict[int, dict[int, int]] = defaultdict(dict)
    for gap, beat in beats:
        tick += gap
        closed += counter.add(tick, beat)
        for n, state in enumerate(beat):
            model[(tick + n) // length][tick + n] = state
        tick += len(beat)
    expected = []
    for n, found in sorted(model.items()):
        if (n + 1) * length <= tick:
            states = [found.get(each, stand_in) for each in range(n * length, (n + 1) * length)]
            expected.append(
                (n * length, (n + 1) * length - 1, tuple(states.count(state) for state in range(3)))
            )
    assert [(window.first, window.last, window.counts) for window in closed] == expected


def test_what_is_released_when_does_not_depend_on_the_states() -> None:
    """Windows close at the same ticks and state the same number of ticks, whatever was counted in them."""
    shapes = []
    for states in ([0] * 50, [1] * 50, [0, 1] * 25):
        counter = WindowCounter("hour", 20, 2, 0)
        closed = [counter.add(first, states) for first in (7, 57, 300)]
        shapes.append([[(each.first, each.last, sum(each.counts)) for each in some] for some in closed])
    assert shapes[0] == shapes[1] == shapes[2]
    assert {ticks for some in shapes[0] for *_, ticks in some} == {20}


def test_true_counts_are_not_in_the_repr() -> None:
    assert repr(ClosedWindow("hour", 0, 99, (31337, 1))) == "ClosedWindow(hour, 0…99)"


def with_windows(**scales: float) -> dict[str, DeviceWindow]:
    return {name: DeviceWindow(ticks=100, scale=scale) for name, scale in scales.items()}


def test_windows_are_priced_together() -> None:
    assert stream_policy(device_windows=with_windows(a=2.0, b=4.0)).device_window_tilt == 0.75
    assert stream_policy().device_window_tilt == 0.0


def test_the_policy_is_refused_when_its_windows_lose_a_little_too_much_to_the_public(tmp_path: Path) -> None:
    """The limit is THEORY's s = 1/log min(M0, M1) for the policy's ε; a scale 0.1% below it is refused."""
    border = 1 / min(largest_tilts(WIDE.chains, 1.0))
    epsilon = Audiences(operator=4.0, public=1.0)
    for scale, accepted in ((border * 1.001, True), (border * 0.999, False)):
        settings = fresh(tmp_path)
        payload = sign(policy(1, device_windows=with_windows(hour=scale), epsilon=epsilon))
        if accepted:
            assert settings.offer(POLICY, payload, {})
        else:
            with pytest.raises(Rejected) as caught:
                settings.offer(POLICY, payload, {})
            assert caught.value.reason == Reason.LOSS_ABOVE_EPSILON


def test_stream_and_windows_together_stay_within_epsilon_for_operators(tmp_path: Path) -> None:
    """Noise sufficient for the stream alone is refused with device windows; noise that allows for them is accepted."""
    windows = with_windows(hour=20.0)

    def settled() -> Settings:
        settings = fresh(tmp_path)
        settings.offer(POLICY, sign(policy(1, device_windows=windows)), {})
        return settings

    with pytest.raises(Rejected) as caught:
        settled().offer(NOISE, sign(noise(1)), {})
    assert caught.value.reason == Reason.LOSS_ABOVE_EPSILON
    roomy = noise(1, epsilon=1.0)
    together = loss(
        WIDE.chains,
        tau0=binary_noise_of(roomy.noise).tau0 + 1 / 20,
        tau1=binary_noise_of(roomy.noise).tau1 + 1 / 20,
    )
    assert together <= 2.0
    assert settled().offer(NOISE, sign(roomy), {})


def test_a_release_has_all_its_fields() -> None:
    """Counts sum to the number of ticks; tilt, loss and errors follow from the scale."""
    policy_, setting, draws = stream_policy(device_windows=with_windows(hour=5.0)), noise(1), 300
    closed = ClosedWindow("hour", 100, 199, (70, 30))
    found = [
        decode(Release, release(closed, "motion", policy_, setting, device=DEVICE, entry=n + 1).payload)
        for n in range(draws)
    ]
    one = found[0]
    assert (one.scope, one.first, one.last, one.ticks, one.devices, one.entry) == (
        DEVICE,
        100,
        199,
        100,
        1,
        1,
    )
    assert one.tilt == 200_000_000
    assert one.loss == loss(WIDE.chains, tau0=0.2, tau1=0.2)
    assert all(sum(each.counts) == 100 for each in found)
    error = one.standard_errors[1] * 100
    assert abs(fmean(each.counts[1] for each in found) - 30) < 6 * error / draws**0.5


def test_a_release_of_many_states_has_all_its_fields() -> None:
    """Every count has independent noise, and the tilt is 2/scale; the loss is the one certified for it."""
    stream = activity_policy(device_windows=with_windows(hour=20.0)).streams["motion"]
    closed, draws = ClosedWindow("hour", 100, 199, (40, 30, 20, 10)), 300
    found = [
        decode(
            Release, release(closed, "motion", stream, activity_noise(), device=DEVICE, entry=n + 1).payload
        )
        for n in range(draws)
    ]
    one = found[0]
    assert (one.states, one.ticks, one.tilt, one.adversary) == (STATES, 100, 100_000_000, "prior")
    assert one.loss == windows_loss(START, 0.1, "prior") <= 2.0
    assert one.theta == START
    assert len({sum(each.counts) for each in found}) > 10
    error = one.standard_errors[0] * 100
    for state, count in enumerate(closed.counts):
        noisy = [each.counts[state] for each in found]
        assert abs(fmean(noisy) - count) < 6 * error / draws**0.5
        assert 0.7 * error < stdev(noisy) < 1.4 * error


def test_windows_of_many_states_cost_twice_as_much() -> None:
    assert (
        activity_policy(device_windows=with_windows(a=2.0, b=4.0)).streams["motion"].device_window_tilt == 1.5
    )


def made(first: int, payload: bytes = b"r") -> MadeRelease:
    return MadeRelease("motion", "hour", first, payload)


def test_a_delivery_that_the_outbox_does_not_know_changes_nothing(tmp_path: Path) -> None:
    """A release is acknowledged after its outbox was found corrupt and renamed: the agent goes on."""
    outbox = Outbox(tmp_path, max_bytes=10**6, max_age_s=100)
    outbox.commit([], periods={}, seen={}, now_ms=0, delivered=[("motion", "hour", 0)])
    assert outbox.releases.unsent == outbox.releases.released == {}
    outbox.close()


def test_a_window_is_released_once_for_ever(tmp_path: Path) -> None:
    """A window is not released again, even after delivery and reopening of the outbox."""
    outbox = Outbox(tmp_path, max_bytes=10**6, max_age_s=100)
    outbox.commit([], periods={}, seen={}, now_ms=0, releases=[made(0, b"a"), made(100, b"b")])
    outbox.close()
    outbox = Outbox(tmp_path, max_bytes=10**6, max_age_s=100)
    assert outbox.releases.unsent == {("motion", "hour", 0): b"a", ("motion", "hour", 100): b"b"}
    outbox.commit([], periods={}, seen={}, now_ms=0, delivered=list(outbox.releases.unsent))
    outbox.close()
    outbox = Outbox(tmp_path, max_bytes=10**6, max_age_s=100)
    assert outbox.releases.unsent == {}
    assert outbox.releases.released == {("motion", "hour"): (100, 2)}
    for again in (0, 100):
        with pytest.raises(RuntimeError, match="released again"):
            outbox.commit([], periods={}, seen={}, now_ms=0, releases=[made(again)])
    outbox.close()


def test_the_number_of_waiting_releases_is_bounded_oldest_first(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path, max_bytes=10**6, max_age_s=100)
    outbox.commit([], periods={}, seen={}, now_ms=0, releases=[made(n) for n in range(RELEASES + 5)])
    assert [key[2] for key in outbox.releases.unsent] == list(range(5, RELEASES + 5))
    kept = outbox._db.execute("SELECT count(*) FROM release").fetchone()
    assert kept == (RELEASES,)
    outbox.close()


@contextmanager
def subscriber(broker: BrokerProcess) -> Iterator[list[bytes]]:
    """A subscriber of `release/#`."""
    heard: list[bytes] = []
    connection = Connection(
        endpoints=[broker.endpoint("subscriber")],
        client_id="subscriber",
        subscriptions=["hush/1/test/release/#"],
        on_message=lambda _topic, payload, _: heard.append(payload),
        log=logger("error", "json", io.StringIO()),
    )
    connection.start()
    assert connection.wait_connected(10)
    yield heard
    connection.stop()


@pytest.mark.parametrize(
    ("module", "owner", "name", "after"),
    [
        ("hushmq.agent.storage.outbox_releases", "StoredReleases", "save", True),
        ("hushmq.agent.publish", "Publisher", "_pump_releases", False),
        ("hushmq.agent.publish", "Publisher", "_on_delivered", False),
    ],
)
def test_released_once_with_the_same_bytes_whatever_crashes(
    broker: BrokerProcess, tmp_path: Path, module: str, owner: str, name: str, after: bool
) -> None:
    """Killed before storing, between storing and sending, or before the acknowledgement: no window has two releases,
    and released counts equal the truth up to their noise."""
    config, log = write_config(tmp_path, broker.port), tmp_path / "log"
    chain = SimulatedChain.binary(0.25, 0.35, 7, int(config.read_text().split("start_tick = ")[1].split()[0]))
    with Peer(broker) as peer, subscriber(broker) as heard:
        peer.push(policy(device_windows=with_windows(hour=20.0)))
        peer.push(noise(epsilon=1.0))
        nth = 8 if name == "_pump_releases" else 3
        code = CRASH.format(module=module, owner=owner, name=name, after=after, nth=nth)
        with process(config, code=code, log=log) as child:
            assert child.wait(30) == -signal.SIGKILL
        with process(config, log=log) as child:
            before = len(set(heard))
            wait_until(lambda: len(set(heard)) > before + 3)
            child.send_signal(signal.SIGTERM)
            assert child.wait(5) == 0
        releases = [decode(Release, payload) for payload in set(heard)]
        assert len({each.first for each in releases}) == len(releases)
        for each in releases:
            if each.ticks == 100:
                truth = sum(chain.states(each.first, 100))
                assert abs(each.counts[1] - truth) < 20 * 40  # e^-40
        wait_until(peer.balanced)
