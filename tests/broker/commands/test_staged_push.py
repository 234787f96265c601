"""A roll-out in stages: first a few devices, then all; it stops where one of them refuses."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.commands.rollout import Progress, Received, progress_of
from hushmq.broker.commands.staged_push import all_applied, stages_of
from hushmq.broker.contract.messages import Refusal, Status, encode
from hushmq.broker.contract.policy_message import Group, Policy, Threshold
from hushmq.broker.contract.problem import Problem, Reason
from hushmq.broker.contract.signature import verify
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.broker.commands.test_push_command import options, stream_status, write
from tests.calibrator.running import Client
from tests.calibrator.site import OPS, STREAM, TOPICS, policy

FIRST, OTHER = "wearable-1", "wearable-2"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    OPS.save(tmp_path / "ops.key")
    return tmp_path / "ops.key"


def site(**changes: object) -> Received:
    """Two devices on line and one that is not; policy 1 is in force."""
    statuses = {name: Status(online=name != "c", policy=1) for name in ("a", "b", "c")}
    return Received(policy=policy(**changes), statuses=statuses)


@pytest.mark.parametrize(
    ("first", "names"), [("b", ("b",)), (" b, a", ("a", "b")), ("1", ("a",)), ("2", ("a", "b"))]
)
def test_who_comes_first(first: str, names: tuple[str, ...]) -> None:
    """Devices by name, or so many of those on line; then the same policy for all, one version higher."""
    staged, whole = stages_of(policy(2), first, site())
    assert (staged.first_devices, staged.version) == (names, 2)
    assert (whole.first_devices, whole.version) == ((), 3)
    assert stages_of(policy(2), None, site()) == [policy(2)]


def test_a_group_goes_together() -> None:
    """Its devices share an account, and so the policy that divides it."""
    grouped = policy(2).model_copy(update={"groups": {"g": Group(devices=("b", "c"))}})
    staged, _ = stages_of(grouped, "b", site())
    assert staged.first_devices == ("b", "c")
    with pytest.raises(ValueError, match=r"groups.g share an account"):
        Policy.model_validate_json(grouped.model_copy(update={"first_devices": ("b",)}).model_dump_json())


@pytest.mark.parametrize(
    ("first", "problem"),
    [("d", "nothing is known of 'd'; devices are a, b, c"), ("0", "0 of 2"), ("3", "3 of 2")],
)
def test_who_cannot_come_first(first: str, problem: str) -> None:
    with pytest.raises(Problem, match=f"--first: {problem}"):
        stages_of(policy(2), first, site())


def test_what_states_mean_changes_for_all_at_once() -> None:
    """Else a window would add up old and new meanings."""
    with pytest.raises(Problem, match="the states mean something else"):
        stages_of(policy(2), "a", site(discretiser=Threshold(at=1.0)))


def test_how_far_a_device_is() -> None:
    """One that is held back is done, unless it says that it would refuse."""
    staged = policy(2).model_copy(update={"first_devices": ("a",)})
    old = Status(online=True, policy=1)
    found = {name: progress_of(name, old, staged, {}) for name in ("a", "b")}
    assert [one.state for one in found.values()] == ["silent", "held back"]
    assert not all_applied(staged, found)
    assert all_applied(staged, found | {"a": Progress("applied")})
    refused = Status(online=True, policy=1, refused=Refusal(version=2, reason=Reason.EPSILON_ABOVE_CAP))
    found |= {"a": Progress("applied"), "b": progress_of("b", refused, staged, {})}
    assert found["b"].state == "refused"
    assert not all_applied(staged, found)


@contextmanager
def device(broker: BrokerProcess, name: str, *, refuses: int | None = None) -> Iterator[list[int]]:
    """A device that answers policies as an agent does, and the versions it has applied."""
    applied: list[int] = []
    with Client(broker, name, TOPICS.policy) as client:
        client.say(TOPICS.status(name), encode(Status(online=True)), retain=True)
        stop = threading.Event()

        def work() -> None:
            answered = 0
            while not stop.wait(0.02):
                for payload in client.heard[TOPICS.policy][answered:]:
                    answered += 1
                    message = verify(Policy, payload, [OPS.public])
                    refusal = None
                    if message.version == refuses:
                        refusal = Refusal(version=message.version, reason=Reason.EPSILON_ABOVE_CAP)
                    elif not message.first_devices or name in message.first_devices:
                        applied.append(message.version)
                    streams = {STREAM: stream_status(1)}
                    answer = Status(
                        online=True, policy=max(applied, default=None), refused=refusal, streams=streams
                    )
                    client.say(TOPICS.status(name), encode(answer), retain=True)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield applied
        finally:
            stop.set()
            thread.join(10)


def test_first_one_then_all(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second stage is published once the first has applied it, and is what is told."""
    with device(nats, FIRST) as one, device(nats, OTHER) as two:
        words = ["push", write(tmp_path), *options(nats, key), "--yes", "--timeout", "30", "--first", FIRST]
        assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (one, two) == ([1, 2], [2])
    assert (told["version"], told["first_devices"]) == (2, [])
    assert {name: each["state"] for name, each in told["devices"].items()} == {
        FIRST: "applied",
        OTHER: "applied",
    }


def test_a_refusal_stops_it(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All others go on as before, and what to do is told."""
    with device(nats, FIRST, refuses=1) as one, device(nats, OTHER) as two:
        words = ["push", write(tmp_path), *options(nats, key), "--yes", "--timeout", "30", "--first", "1"]
        assert main(words) == 1
    printed = capsys.readouterr().out
    assert (one, two) == ([], [])
    assert f"first for {FIRST}" in printed
    assert f"{OTHER}: held back" in printed
    assert f"it is for {FIRST} alone: push it without --first for all" in printed


def test_stages_that_were_signed_elsewhere(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is a file of its own; a signed policy takes no --first."""
    path, where = write(tmp_path), options(nats, key)[2:]
    for version, more in ((1, ["--first", FIRST]), (2, [])):
        out = ["--version", str(version), "--out", str(tmp_path / f"{version}.json"), *more]
        assert main(["policy", "sign", path, "--key", str(key), *out]) == 0
    with device(nats, FIRST) as one, device(nats, OTHER) as two:
        for version in (1, 2):
            signed = str(tmp_path / f"{version}.json")
            assert main(["push", signed, *where, "--yes", "--timeout", "30"]) == 0
    assert (one, two) == ([1, 2], [2])
    capsys.readouterr()
    assert main(["push", str(tmp_path / "2.json"), *where, "--yes", "--first", "1"]) == 2
    assert "--first: a signed policy says it itself" in capsys.readouterr().err
