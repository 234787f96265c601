"""Releases over MQTT: each once, only such as they claim to be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hushmq import Problem, Rejected, Release, ReleaseReader, read_release
from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.contract.topics import Topics
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.nats import NatsServer
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.running import Client

TOPICS = Topics("test")


def release(entry: int = 1, **changes: object) -> Release:
    fields = {
        "stream": "motion",
        "window": "hour",
        "scope": "cohort",
        "first": 0,
        "last": 9,
        "devices": 2,
        "ticks": 20,
        "states": ("still", "moving"),
        "counts": (12, 8),
        "frequencies": (0.6, 0.4),
        "standard_errors": (0.1, 0.1),
        "intervals": ((0.4, 0.8), (0.2, 0.6)),
        "scale": 2.0,
        "tilt": 500_000_000,
        "loss": 0.5,
        "budget": 1.0,
        "adversary": "informed",
        "theta": theta_message(BinaryTheta.point(0.1, 0.2)),
        "entry": entry,
    }
    return Release.model_validate(fields | changes)


def subscriber(broker: BrokerProcess, password: str = "subscriber-secret") -> ReleaseReader:  # noqa: S107  # the site's
    return ReleaseReader(
        f"mqtt://127.0.0.1:{broker.port}", cohort="test", username="subscriber", password=password
    )


def topic(scope: str = "cohort") -> str:
    return TOPICS.release("motion", "hour", scope)


def test_each_release_comes_once(broker: BrokerProcess) -> None:
    """The retained one at once, later ones as they come; a payload repeated by the broker is not read twice."""
    with Client(broker, "calibrator") as calibrator:
        calibrator.say(topic(), encode(release(1)), retain=True)
        with subscriber(broker) as reader:
            assert reader.read(timeout=10.0) == release(1)
            calibrator.say(topic(), encode(release(1)), retain=True)
            calibrator.say(topic(), encode(release(2)), retain=True)
            assert reader.read(timeout=10.0) == release(2)
            assert reader.read(timeout=0.2) is None
            assert reader.rejected == 0


def test_what_is_no_release_of_its_topic_is_counted(nats: NatsServer) -> None:
    """Malformed, or about another scope: passed over, and told as a number."""
    with Client(nats, "calibrator") as calibrator, subscriber(nats) as reader:
        calibrator.say(topic(), b"{}")
        calibrator.say(topic("wearable-1"), encode(release(1)))
        calibrator.say(topic(), encode(release(2)))
        assert reader.read(timeout=10.0) == release(2)
        assert reader.rejected == 2


def test_an_iteration_ends_when_the_reader_is_closed(nats: NatsServer) -> None:
    """Another thread may close it."""
    with Client(nats, "calibrator") as calibrator, subscriber(nats) as reader:
        calibrator.say(topic(), encode(release(1)))
        found: list[Release] = []
        arrived = threading.Event()

        def read() -> None:
            for one in reader:
                found.append(one)
                arrived.set()

        reading = threading.Thread(target=read)
        reading.start()
        assert arrived.wait(10)
        calibrator.say(topic(), encode(release(2)))
        reader.close()
        reading.join(10)
        assert not reading.is_alive()
        assert release(1) in found


WORD = "hidden"


@pytest.mark.parametrize(
    ("open_", "says"),
    [
        (lambda: ReleaseReader(cohort="home"), "no address is given"),
        (lambda: ReleaseReader("http://x", cohort="home"), "write mqtt://"),
        (lambda: ReleaseReader("mqtt://x", cohort="a b"), "cohort: 'a b' is not a valid topic level"),
        (
            lambda: ReleaseReader("mqtt://x", cohort="home", password=WORD),
            "^brokers: mqtt://x:1883 would send the password .* password_in_clear_text=True$",
        ),
        (lambda: ReleaseReader("mqtts://x", cohort="home", ca=Path("none.pem")), "none.pem"),
    ],
)
def test_what_a_person_can_mend_is_a_problem(open_: Callable[[], ReleaseReader], says: str) -> None:
    """One line that names it, before anything is connected."""
    with pytest.raises(Problem, match=says):
        open_()


def test_a_reader_may_accept_that_its_password_is_in_clear_text() -> None:
    ReleaseReader("mqtt://x", cohort="home", password=WORD, password_in_clear_text=True).close()


def test_a_wrong_password_is_told(nats: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's refusal is named instead of waiting for ever."""
    monkeypatch.setattr("hushmq.api.release_reader.CONNECT_S", 1.0)
    with pytest.raises(Problem, match=r"^broker: mqtt://127\.0\.0\.1"), subscriber(nats, "wrong"):
        pass


def test_a_payload_is_read_or_rejected() -> None:
    """For programs with a client of their own; nothing of the payload is repeated."""
    assert read_release(encode(release())) == release()
    with pytest.raises(Rejected, match=r"^malformed: Release: ") as raised:
        read_release(encode(release()).replace(b'"motion"', b'"8675309 "'))
    assert "8675309" not in str(raised.value)
