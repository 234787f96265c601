"""`hushmq push` publishes no policy that devices would refuse to read, and follows its roll-out."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.messages import (
    Account,
    LedgerState,
    NoiseSetting,
    Refusal,
    Status,
    StreamStatus,
    encode,
)
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Reason
from hushmq.broker.contract.signature import PrivateKey, verify
from hushmq.broker.contract.theta_message import CategoricalThetaMessage, theta_message
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.activity import emission
from tests.agent.peer import CALIBRATOR
from tests.calibrator.running import Client
from tests.calibrator.site import NARROW, OPS, STREAM, TOPICS, WIDE, policy, signed, wait_until

POLICY = """
cohort = "test"
[streams.motion]
states = ["still", "moving"]
period_ms = 1000
adversary = "prior"
[streams.motion.discretiser]
kind = "threshold"
at = 75.0
[streams.motion.theta.start]
q = {low = 0.15, high = 0.45}
r = {low = 0.15, high = 0.45}
[streams.motion.theta.floor]
q = {low = 0.25, high = 0.3}
r = {low = 0.3, high = 0.35}
[streams.motion.epsilon]
operator = 4.0
public = 1.0
[streams.motion.windows.hour]
ticks = 3600
scopes = ["cohort", "device"]
"""


@pytest.fixture
def key(tmp_path: Path) -> Path:
    OPS.save(tmp_path / "ops.key")
    return tmp_path / "ops.key"


def write(folder: Path, text: str = POLICY, name: str = "policy.toml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def options(broker: BrokerProcess, key: Path, name: str = "ops") -> list[str]:
    password = key.parent / f"{name}.password"
    if not password.exists():
        password.touch(mode=0o600)
        password.write_text(f"{name}-secret\n")
    address = ["--broker", f"mqtt://127.0.0.1:{broker.port}"]
    return ["--key", str(key), *address, "--username", name, "--password-file", str(password)]


def stream_status(noise: int | None, refused: Refusal | None = None) -> StreamStatus:
    return StreamStatus(noise=noise, refused=refused, sampled=0, buffered=0, dropped=0)


@contextmanager
def device(broker: BrokerProcess, name: str, answer: Status) -> Iterator[None]:
    """An online device that answers the next policy with a status."""
    with Client(broker, name, TOPICS.policy) as client:
        client.say(TOPICS.status(name), encode(Status(online=True, policy=None)), retain=True)
        before = len(client.heard[TOPICS.policy])
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                if len(client.heard[TOPICS.policy]) > before:
                    client.say(TOPICS.status(name), encode(answer), retain=True)
                    return
                stop.wait(0.02)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(10)


def test_push_and_follow(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The policy is signed and retained; one device applies and one refuses it, so the exit code is 1."""
    applied = Status(online=True, policy=1, streams={STREAM: stream_status(1)})
    refused = Status(online=True, policy=None, refused=Refusal(version=1, reason=Reason.EPSILON_ABOVE_CAP))
    with (
        device(nats, "wearable-1", applied),
        device(nats, "wearable-2", refused),
        Client(nats, "ops", TOPICS.policy) as ops,
    ):
        code = main(["push", write(tmp_path), *options(nats, key), "--yes", "--timeout", "20"])
        wait_until(lambda: ops.heard[TOPICS.policy])
        message = verify(Policy, ops.heard[TOPICS.policy][-1], [OPS.public])
    printed = capsys.readouterr().out
    assert code == 1
    assert message.version == 1
    assert "wearable-1: applied" in printed
    assert "wearable-2: refused (epsilon-above-cap)" in printed
    for words in (
        "noise on the device",
        "loss to operators",
        "operators, undecided                      none → 6.1972",
        "error of an hourly histogram",
        "for the device",
        "a tick is in all 2 of these windows, and their tilts add up",
    ):
        assert words in printed
    tilts = [float(tilt) for tilt in re.findall(r"tilt ([0-9.]+)", printed)]
    learning, total = map(
        float, re.findall(r"learning \(([0-9.]+)\) the total tilt of a tick is ([0-9.]+)", printed)[0]
    )
    assert len(tilts) == 2
    assert sum(tilts) + learning == pytest.approx(total, abs=2e-5)


def test_versions_and_changes_are_found_on_the_broker(
    broker: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The next version is used, differences are listed, and --dry-run publishes nothing."""
    with Client(broker, "ops", TOPICS.policy) as ops:
        ops.say(TOPICS.policy, signed(policy(4)), retain=True)
        assert main(["push", write(tmp_path), *options(broker, key), "--dry-run"]) == 0
        printed = capsys.readouterr().out
        assert "policy 4 → 5" in printed
        assert "windows" in printed
        assert "nothing was published" in printed
        assert main(["push", write(tmp_path), *options(broker, key), "--yes", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["version"], found["published"], found["devices"]) == (5, True, {})
        assert found["streams"][STREAM]["after"]["operator"] <= 4.0
        stale = write(tmp_path, f"version = 5\n{POLICY}", "stale.toml")
        assert main(["push", stale, *options(broker, key), "--yes"]) == 2
        assert "is not above 5" in capsys.readouterr().err
        slower = write(tmp_path, POLICY.replace("period_ms = 1000", "period_ms = 500"), "slower.toml")
        assert main(["push", slower, *options(broker, key), "--yes"]) == 2
        assert "streams.motion.period_ms" in capsys.readouterr().err


def test_a_review_needs_no_key(
    nats: BrokerProcess, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What would change is for everybody who may read the topics; to publish it, the key is asked for."""
    given = ["push", write(tmp_path), *options(nats, key)]
    without = [word for word in given if word not in {"--key", str(key)}]
    assert main([*without, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "policy none → 1" in said
    assert "nothing was published" in said
    assert main([*without, "--yes"]) == 2
    assert "--key: missing" in capsys.readouterr().err


def test_a_stride_is_chosen_shown_and_never_changes(
    broker: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that says nothing gets a number when it is pushed first, and keeps it; another one is refused."""
    slow = POLICY.replace("low = 0.15, high = 0.45", "low = 0.01, high = 0.1")
    slow = slow.replace("low = 0.25, high = 0.3", "low = 0.05, high = 0.06")
    slow = slow.replace("low = 0.3, high = 0.35", "low = 0.05, high = 0.06")

    def pushed(text: str, version: int) -> int:
        assert main(["push", write(tmp_path, text), *options(broker, key), "--yes"]) == 0
        wait_until(lambda: len(ops.heard[TOPICS.policy]) == version)
        return verify(Policy, ops.heard[TOPICS.policy][-1], [OPS.public]).streams[STREAM].stride

    with Client(broker, "ops", TOPICS.policy) as ops:
        chosen = pushed(slow, 1)
        assert 3600 % chosen == 0
        assert 10 <= chosen <= 150
        says = f"one of {chosen} ticks is published, every {chosen} s, and every tick is protected; the windows' errors"
        gain = re.search(rf"{says} are (\S+) times smaller", capsys.readouterr().out)
        assert gain is not None
        assert float(gain[1]) > 1.5
        # Faster chains would have another stride.
        assert pushed(slow.replace("low = 0.01", "low = 0.04"), 2) == chosen
        fixed = slow.replace("period_ms = 1000", f"period_ms = 1000\nstride = {chosen * 2}")
        assert main(["push", write(tmp_path, fixed), *options(broker, key), "--yes"]) == 2
        assert f"streams.motion.stride: {chosen} is in use and never changes" in capsys.readouterr().err


def test_a_stride_that_costs_more_than_it_gives_is_called_that(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy may fix any stride; `push` says by how much its windows are worse."""
    long = POLICY.replace("period_ms = 1000", "period_ms = 1000\nstride = 400")
    assert main(["push", write(tmp_path, long), *options(nats, key), "--dry-run"]) == 0
    assert "times LARGER than with all of them" in capsys.readouterr().out


def with_light(change: str = "") -> str:
    """The policy with a second stream, like the first."""
    light = POLICY.split("\n", 2)[2].replace("streams.motion", "streams.light")
    return POLICY + light.replace("[streams.light]", f"[streams.light]\n{change}", 1)


def test_what_streams_of_one_account_cost_each_other(
    broker: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The account, the share, and noise and error with and without the others, for people and for programs."""
    text = f'{with_light()}\n[groups.ann]\ndevices = ["watch", "ring"]\n'
    path = write(tmp_path, text)
    assert main(["push", path, *options(broker, key), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    for words in (
        "NOTE: 2 streams are priced as if they followed one state, matched in this order: "
        "motion: still, moving; light: still, moving",
        "one account: motion, light on each of 2 devices of a group; ε 4 and 1, its share 0.25 of the tilt",
        "if it shared nothing: noise",
    ):
        assert words in printed
    assert main(["push", path, *options(broker, key), "--dry-run", "--json"]) == 0
    streams = json.loads(capsys.readouterr().out)["streams"]
    for one in streams.values():
        assert (one["account"]["streams"], one["account"]["devices"]) == (["motion", "light"], 2)
        assert one["account"]["share"] == 0.25
        assert 3.99 < one["after"]["operator"] <= 4.0 + 1e-9
        assert one["after"]["public"] <= 1.0 + 1e-9
        assert one["account"]["alone"]["hourly_error"] < 0.5 * one["after"]["hourly_error"]
    apart = write(tmp_path, with_light("independent = true"), "apart.toml")
    assert main(["push", apart, *options(broker, key), "--dry-run", "--json"]) == 0
    streams = json.loads(capsys.readouterr().out)["streams"]
    assert [one["account"] for one in streams.values()] == [None, None]


def test_streams_that_cannot_be_joined_are_not_pushed(
    broker: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A retained policy that could be signed before counts with its version; what is wrong is said in one line."""
    wrong = with_light().replace("period_ms = 1000", "period_ms = 500", 1)
    assert main(["push", write(tmp_path, wrong), *options(broker, key), "--yes"]) == 2
    told = capsys.readouterr().err
    assert (
        "motion and light are one account, since neither is independent, but period_ms is 500 and 1000"
        in told
    )
    assert "write independent = true" in told
    with Client(broker, "ops", TOPICS.policy) as ops:
        older = json.loads(signed(policy(6)))
        other = older["message"]["streams"][STREAM] | {"period_ms": 500}
        older["message"]["streams"]["light"] = other
        ops.say(TOPICS.policy, json.dumps(older).encode(), retain=True)
        assert main(["push", write(tmp_path), *options(broker, key), "--dry-run"]) == 0
        assert "policy 6 → 7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("at = 75.0\n", None),
        ("at = 20.0\n", "the states mean something else (discretiser)"),
        ('at = 75.0\n[streams.motion]\nsource = "ring-5"\n', "the states mean something else (source)"),
        ("at = 75.0\n[streams.motion]\nepoch = 2\n", "ops begin epoch 2"),
    ],
)
def test_a_new_epoch_is_announced(
    nats: BrokerProcess,
    tmp_path: Path,
    key: Path,
    capsys: pytest.CaptureFixture[str],
    line: str,
    why: str | None,
) -> None:
    """What begins a new epoch is said with its reason, and the forecast is for the start and not for the learned Θ."""
    further = line.partition("[streams.motion]\n")[2]
    text = POLICY.replace("period_ms = 1000\n", f"period_ms = 1000\n{further}")
    path = write(tmp_path, text.replace("at = 75.0\n", line.partition("[")[0]))
    setting = NoiseSetting(
        version=1,
        policy=4,
        cohort="test",
        stream=STREAM,
        theta=theta_message(NARROW),
        noise=BinaryNoiseMessage(rho0=0.2, rho1=0.2),
    )
    with Client(nats, "ops", TOPICS.policy) as ops, Client(nats, "calibrator") as calibrator:
        ops.say(TOPICS.policy, signed(policy(4)), retain=True)
        calibrator.say(TOPICS.noise(STREAM), encode(CALIBRATOR.sign(setting)), retain=True)
        assert main(["push", path, *options(nats, key), "--dry-run"]) == 0
        printed = capsys.readouterr().out
        assert main(["push", path, *options(nats, key), "--dry-run", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["streams"][STREAM]
    assert (f"NEW EPOCH: {why}." in printed) == (why is not None)
    assert found["new_epoch"] == why
    assert found["after"]["theta"]["q_low"] == (WIDE if why else NARROW).q_low


def test_an_epoch_is_never_lowered(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is refused before anything is signed."""
    with Client(nats, "ops", TOPICS.policy) as ops:
        ops.say(TOPICS.policy, signed(policy(4, epoch=3)), retain=True)
        assert main(["push", write(tmp_path), *options(nats, key), "--dry-run"]) == 2
    assert "streams.motion.epoch: 1 is below 3, which is in force: it only rises" in capsys.readouterr().err


ACTIVITY = """
cohort = "test"
[streams.activity]
states = ["lying", "sitting", "walking"]
period_ms = 1000
stride = 1
adversary = "prior"
discretiser = {kind = "bins", edges = [1.5, 4.0]}
epsilon = {operator = 4.0, public = 2.0}
windows = {hour = {ticks = 3600}}
[streams.activity.theta.start]
low = [[0.4, 0.1, 0.1], [0.1, 0.4, 0.1], [0.1, 0.1, 0.4]]
high = [[0.7, 0.4, 0.4], [0.4, 0.7, 0.4], [0.4, 0.4, 0.7]]
[streams.activity.theta.floor]
low = [[0.5, 0.2, 0.2], [0.2, 0.5, 0.2], [0.2, 0.2, 0.5]]
high = [[0.6, 0.3, 0.3], [0.3, 0.6, 0.3], [0.3, 0.3, 0.6]]
"""


def test_many_states_before_and_after(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Θ, the noise, both losses and the hourly error are shown before and after, with the adversary."""
    path = write(tmp_path, ACTIVITY)
    with Client(nats, "ops", TOPICS.policy) as ops, Client(nats, "calibrator") as calibrator:
        assert main(["push", path, *options(nats, key), "--yes", "--timeout", "0"]) == 0
        printed = capsys.readouterr().out
        assert "none → stay 0.4–0.7, move 0.1–0.4" in printed
        assert "none → kept 0." in printed
        assert "NOTE: both losses assume an adversary who knows no state at any other instant" in printed
        wait_until(lambda: ops.heard[TOPICS.policy])
        learned = CategoricalThetaMessage.model_validate(
            {
                "low": ((0.45, 0.15, 0.15), (0.15, 0.45, 0.15), (0.15, 0.15, 0.45)),
                "high": ((0.65, 0.35, 0.35), (0.35, 0.65, 0.35), (0.35, 0.35, 0.65)),
            }
        )
        setting = NoiseSetting(
            version=1,
            policy=1,
            cohort="test",
            stream="activity",
            theta=learned,
            noise=emission(learned, 4.0),
        )
        calibrator.say(TOPICS.noise("activity"), encode(CALIBRATOR.sign(setting)), retain=True)
        tighter = write(tmp_path, ACTIVITY.replace("operator = 4.0", "operator = 2.0"), "tighter.toml")
        assert main(["push", tighter, *options(nats, key), "--dry-run"]) == 0
        printed = capsys.readouterr().out
        assert "policy 1 → 2" in printed
        assert "stay 0.45–0.65, move 0.15–0.35 → stay 0.45–0.65" in printed
        words = {
            line[4:32].strip(): [float(number) for number in re.findall(r"\d+\.\d{4}", line)]
            for line in printed.splitlines()
            if " → " in line and line.startswith("    ")
        }
        assert words["noise on the device"][0] > words["noise on the device"][1]
        assert words["loss to operators"][0] > 3.99
        assert 1.99 < words["loss to operators"][1] <= 2.0
        assert words["error of an hourly histogram"][0] < words["error of an hourly histogram"][1]
        assert main(["push", tighter, *options(nats, key), "--dry-run", "--json"]) == 0
        after = json.loads(capsys.readouterr().out)["streams"]["activity"]["after"]
        assert len(after["noise"]) == len(after["theta"]["backward"]["low"]) == 3


def test_the_number_of_states_in_use_never_changes(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy that devices would refuse is refused before any question is asked."""
    with Client(nats, "ops") as ops:
        ops.say(TOPICS.policy, signed(policy(4)), retain=True)
        changed = write(tmp_path, ACTIVITY.replace("streams.activity", "streams.motion"))
        assert main(["push", changed, *options(nats, key), "--yes"]) == 2
    assert "streams.motion.states: 2 are in use, and their number never changes" in capsys.readouterr().err


def test_more_states_than_a_message_holds_are_refused(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A Θ too large for a message is refused before anything is published."""
    k = 48
    low = [[0.1234567890123456 if u == x else 0.0012345678901234 for u in range(k)] for x in range(k)]
    high = [[0.9234567890123456 if u == x else 0.0512345678901234 for u in range(k)] for x in range(k)]
    text = ACTIVITY.split("[streams.activity.theta.start]", maxsplit=1)[0]
    text = text.replace('["lying", "sitting", "walking"]', str([f"s{n}" for n in range(k)]))
    text = text.replace("[1.5, 4.0]", str([float(n) for n in range(k - 1)]))
    theta = "".join(
        f"[streams.activity.theta.{end}]\nlow = {low}\nhigh = {high}\n" for end in ("start", "floor")
    )
    assert main(["push", write(tmp_path, text + theta), *options(nats, key), "--dry-run"]) == 2
    assert "streams.activity.states: Θ of 48 states does not fit" in capsys.readouterr().err


def test_a_policy_larger_than_a_message_is_refused(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A policy whose streams together are too large for a message is refused."""
    aliases = {f"a name of some length, number {n}": "still" for n in range(1000)}
    tree = policy().model_dump(mode="json")
    stream = tree["streams"]["motion"] | {"discretiser": {"kind": "labels", "aliases": aliases}}
    tree["streams"] = {f"stream-{n}": stream for n in range(8)}
    del tree["version"]
    path = write(tmp_path, json.dumps(tree), "policy.json")
    assert main(["push", path, *options(nats, key), "--dry-run"]) == 2
    assert "bytes; devices read at most 262144" in capsys.readouterr().err


BAD_ACTIVITY = [
    ('adversary = "prior"\n', "", 'with more than two states, write adversary = "prior", "informed"'),
    ('"walking"]', '"walking", "running"]', "streams.activity: theta must be {low, high} with 4 rows each"),
    ("[0.1, 0.1, 0.4]]\nhigh", "[0.1, 0.4]]\nhigh", "theta.start: row 2 must have 3 entries"),
    (
        "low = [[0.4, 0.1, 0.1]",
        "low = [[0.4, 0.5, 0.1]",
        "theta.start: entry 0, 1 must have 0 ≤ low ≤ high ≤ 1",
    ),
    ("high = [[0.6, 0.3", "high = [[0.8, 0.3", "theta: start must contain floor"),
    ("[1.5, 4.0]", "[1.5]", "discretiser: bins need one state more than they have edges"),
    ("low = [[0.5", 'low = [["much"', "theta.floor.low.0.0: Input should be a valid number"),
]


@pytest.mark.parametrize(("old", "new", "words"), BAD_ACTIVITY)
def test_a_bad_policy_of_many_states_never_reaches_the_broker(
    tmp_path: Path, key: Path, old: str, new: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is one line that names the row and the entry."""
    assert old in ACTIVITY
    bad = write(tmp_path, ACTIVITY.replace(old, new, 1))
    assert main(["push", bad, "--key", str(key), "--broker", "mqtt://127.0.0.1:1", "--yes"]) == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("operator = 4.0", "operator = -1.0", "streams.motion.epsilon.operator"),
        ("operator = 4.0", 'operator = "much"', "streams.motion.epsilon.operator"),
        (
            "ticks = 3600",
            "tocks = 3600",
            "streams.motion.windows.hour.tocks: there is no such setting; did you mean ticks?",
        ),
        (
            'scopes = ["cohort", "device"]',
            'scopes = ["cohort", "cohort"]',
            "scopes must differ from each other",
        ),
        ("ticks = 3600", 'ticks = 3600\nmethod = "mqm"', "streams.motion.windows.hour.method"),
        (
            POLICY,
            POLICY.replace('"prior"', '"informed"') + 'method = "mqm-exact"\n',
            "windows.hour.method: mqm-exact holds for the prior and the undecided adversary",
        ),
        (
            POLICY,
            POLICY.replace("high = 0.45", "high = 0.55") + 'method = "mqm-exact"\n',
            "windows.hour.method: mqm-exact is not certified where q + r may exceed 1",
        ),
        (
            '"prior"',
            '"undecided"',
            "streams.motion: adversary: epsilon.public: the undecided adversary learns which chain of Θ "
            "it is: the long-run odds of a state differ by 2.197 nats",
        ),
        ('cohort = "test"', "", "cohort: Field required"),
        ("q = {low = 0.25", "q = {low = 0.01", "start must contain floor"),
        ("at = 75.0", "at = inf", "discretiser.at: it must be a finite number"),
        ("[streams.motion]", "[streams.motion", "not TOML"),
    ],
)
def test_a_bad_policy_never_reaches_the_broker(
    tmp_path: Path, key: Path, old: str, new: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message is one line that names the setting, printed before any connection is made."""
    assert old in POLICY
    bad = write(tmp_path, POLICY.replace(old, new, 1))
    assert main(["push", bad, "--key", str(key), "--broker", "mqtt://127.0.0.1:1", "--yes"]) == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("", 1), (None, 1), ("y", 0), ("YES", 0)])
def test_the_question(
    nats: BrokerProcess,
    tmp_path: Path,
    key: Path,
    answer: str | None,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only yes publishes; no, an empty answer and the end of input (Ctrl-D) publish nothing, with exit code 1."""

    def reply(_question: str) -> str:
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", reply)
    with Client(nats, "ops", TOPICS.policy) as ops:
        assert main(["push", write(tmp_path), *options(nats, key), "--timeout", "5"]) == code
        if code == 0:
            wait_until(lambda: ops.heard[TOPICS.policy])
        else:
            assert "nothing was published" in capsys.readouterr().out
            assert ops.heard[TOPICS.policy] == []


def test_a_silent_device_is_waited_for_and_reported(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A silent online device delays the end until the time-out, with exit code 1; an offline device does not."""
    with Client(nats, "wearable-1") as online, Client(nats, "wearable-2") as gone:
        online.say(TOPICS.status("wearable-1"), encode(Status(online=True)), retain=True)
        gone.say(TOPICS.status("wearable-2"), encode(Status(online=False)), retain=True)
        given = [*options(nats, key), "--yes", "--json", "--timeout", "1"]
        capsys.readouterr()
        assert main(["push", write(tmp_path), *given]) == 1
        devices = json.loads(capsys.readouterr().out)["devices"]
    assert {name: one["state"] for name, one in devices.items()} == {
        "wearable-1": "silent",
        "wearable-2": "offline",
    }


def test_a_device_that_hides_its_presence_is_waited_for(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be there: it is silent, not offline, until its next status."""
    with Client(nats, "wearable-1") as hidden:
        hidden.say(TOPICS.status("wearable-1"), encode(Status(online=None)), retain=True)
        given = [*options(nats, key), "--yes", "--json", "--timeout", "1"]
        capsys.readouterr()
        assert main(["push", write(tmp_path), *given]) == 1
        devices = json.loads(capsys.readouterr().out)["devices"]
    assert devices["wearable-1"]["state"] == "silent"


def test_what_is_left_of_the_budget(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rest of both audiences' budgets is shown before and after, with a warning if the new ε is already spent."""
    theta = policy().streams[STREAM].theta.start
    ledger = LedgerState(
        stream=STREAM,
        adversary="prior",
        entries=3,
        operator=Account(budget=4.0, loss=1.5, left=2.5, theta=theta),
        public=Account(budget=2.0, loss=1.25, left=0.75, theta=theta),
    )
    with Client(nats, "calibrator") as calibrator:
        calibrator.say(TOPICS.ledger(STREAM), encode(ledger), retain=True)
        assert main(["push", write(tmp_path), *options(nats, key), "--dry-run"]) == 0
        words = capsys.readouterr().out
        assert re.search(r"left for operators +2\.5000 → 2\.5000\n", words)
        assert re.search(r"left for the public +0\.7500 → -0\.2500\n", words)
        assert "does not add up over windows: with 0 left, releases go on" in words
        assert "WARNING: 0.2500 more than the new ε of the public is already spent" in words
        assert main(["push", write(tmp_path), *options(nats, key), "--dry-run", "--json"]) == 0
        left = json.loads(capsys.readouterr().out)["streams"][STREAM]["left"]
        assert left == {
            "operator": {"before": 2.5, "after": 2.5, "repriced": False},
            "public": {"before": 0.75, "after": -0.25, "repriced": False},
        }


def test_yes_is_required_without_a_terminal(
    tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a terminal, --yes is required."""
    assert main(["push", write(tmp_path), "--key", str(key), "--broker", "mqtt://127.0.0.1:1"]) == 2
    assert "--yes" in capsys.readouterr().err


def test_an_identity_that_may_not_write_policies(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker acknowledges a denied publish; the command reports that the policy is not delivered back."""
    with Client(nats, "ops", TOPICS.policy) as ops:
        given = [*options(nats, key, "console"), "--yes"]
        assert main(["push", write(tmp_path), *given]) == 2
        assert "did not deliver the policy back" in capsys.readouterr().err
        assert ops.heard[TOPICS.policy] == []


def test_the_key_of_a_stranger_is_refused_by_its_mode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A private key that others can read is refused."""
    open_key = tmp_path / "open.key"
    PrivateKey.generate().save(open_key)
    open_key.chmod(0o644)
    assert main(["push", write(tmp_path), "--key", str(open_key), "--broker", "mqtt://x", "--yes"]) == 2
    assert "chmod 600" in capsys.readouterr().err


PULSE = """
cohort = "test"
[streams.pulse]
states = ["low", "high"]
period_ms = 1000
discretiser = {kind = "threshold", at = 70.0}
adversary = "prior"
epsilon = {operator = 4.0, public = 2.0}
windows = {hour = {ticks = 3600}}
[streams.pulse.theta.start.regimes]
transition = [[0.99, 0.01], [0.01, 0.99]]
chains = [{q = 0.06, r = 0.4}, {q = 0.5, r = 0.04}]
[[streams.pulse.theta.floor.regimes]]
transition = [[0.99, 0.01], [0.01, 0.99]]
chains = [{q = 0.06, r = 0.4}, {q = 0.5, r = 0.04}]
"""


def test_regimes_are_pushed_with_what_they_mean(
    nats: BrokerProcess, tmp_path: Path, key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One chain or a list of them; against whom the promise is, and that nothing is learned, is said."""
    path = write(tmp_path, PULSE)
    with Client(nats, "ops", TOPICS.policy) as ops:
        assert main(["push", path, *options(nats, key), "--yes", "--timeout", "0"]) == 0
        printed = capsys.readouterr().out
        assert "none → 1 chain of 2 regimes, share of ones 0." in printed
        assert "NOTE: both losses assume an adversary who knows no state at any other instant" in printed
        assert "NOTE: Θ is the chains that theta.start lists and none between them" in printed
        wait_until(lambda: ops.heard[TOPICS.policy])
    assert (
        main(["push", write(tmp_path, PULSE.replace('"prior"', '"informed"')), *options(nats, key), "--yes"])
        == 2
    )
    assert 'Choose adversary = "prior"' in capsys.readouterr().err
