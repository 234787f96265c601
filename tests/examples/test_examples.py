"""Every file in examples/ runs as a stranger would run it: as a program of its own, against a real broker."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hushmq.broker.contract.policy_message import Audiences, Threshold, Window
from hushmq.broker.provision.nats import NatsServer
from tests.agent.peer import write_config as write_agent_config
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import STREAM, TOPICS, policy, signed

FOLDER = Path(__file__).parents[2] / "examples"
LONGEST_S = 120.0


def example(name: str, *words: object, cwd: Path) -> subprocess.Popen[str]:
    """Start an example."""
    return subprocess.Popen(
        [sys.executable, str(FOLDER / name), *(str(word) for word in words)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def outcome(program: subprocess.Popen[str], *, code: int = 0) -> str:
    """What a program wrote to standard output, once it has ended."""
    try:
        out, err = program.communicate(timeout=LONGEST_S)
    finally:
        program.kill()
    assert program.returncode == code, err
    return out if code == 0 else err


def test_every_example_is_run() -> None:
    """A new file in examples/ needs a test here."""
    run = set(re.findall(r'example\(\s*"(\w+\.py)"', Path(__file__).read_text()))
    assert run == {path.name for path in FOLDER.glob("*.py")}


def test_calibrate_and_price(tmp_path: Path) -> None:
    """Every loss printed beside its ε is within it."""
    out = outcome(example("calibrate_and_price.py", cwd=tmp_path))
    pairs = re.findall(r"^loss: ([\d.]+) of (\d)$", out, re.MULTILINE)
    assert len(pairs) == 2
    assert all(float(loss) <= float(epsilon) for loss, epsilon in pairs)


@contextmanager
def site(nats: NatsServer, folder: Path) -> Iterator[None]:
    """A calibrator at the broker, and a policy with a tick of 50 ms and a window of a second."""
    pushed = policy(
        states=("away", "home"),
        period_ms=50,
        discretiser=Threshold(at=0.5),
        epsilon=Audiences(operator=4.0, public=2.0),
        windows={"second": Window(ticks=20)},
    )
    with process(write_config(folder, nats)), Client(nats, "ops") as ops:
        ops.say(TOPICS.policy, signed(pushed), retain=True)
        yield


def test_the_loop(nats: NatsServer, tmp_path: Path) -> None:
    """An embedded agent's values reach a reader as a release, and the ledger has charged for it."""
    config = write_agent_config(tmp_path / "device", nats.port, source='kind = "offer"')
    secret = tmp_path / "subscriber.password"
    secret.write_text("subscriber-secret\n")
    broker = ("--broker", f"mqtt://127.0.0.1:{nats.port}", "--cohort", "test")
    with site(nats, tmp_path / "calibrator"):
        words = ("--username", "subscriber", "--password-file", secret, "--count", 1)
        reader = example("read_releases.py", *broker, *words, cwd=tmp_path)
        agent = example(
            "embed_an_agent.py", "--config", config, "--stream", STREAM, "--seconds", 6, cwd=tmp_path
        )
        said = outcome(agent)
        released = outcome(reader)
    sampled, counted = map(int, re.findall(r"(\d+) ticks sampled: (\d+) counted", said)[0])
    assert sampled >= counted > 0
    assert re.search(
        rf"^{STREAM}/second/cohort \d+…\d+: away -?[\d.]+ ± [\d.]+, home", released, re.MULTILINE
    )
    assert re.search(r"^  loss [\d.]+ of 2$", released, re.MULTILINE)
    books = outcome(example("open_a_ledger.py", tmp_path / "calibrator" / "ledger.db", cwd=tmp_path))
    assert f"{STREAM}: public: loss " in books
    assert "  second/cohort  " in books
    assert books.endswith("the ledger is right\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("embed_an_agent.py", ("--config", "none.toml"), "none.toml: No such file or directory"),
        ("open_a_ledger.py", ("none.db",), "database: sqlite:///none.db does not exist"),
        ("read_releases.py", ("--broker", "http://127.0.0.1"), "write mqtt://host[:port]"),
    ],
)
def test_what_a_person_can_mend_is_one_line(
    name: str, words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    """No traceback for a file that is missing or an address that is none."""
    err = outcome(example(name, *words, cwd=tmp_path), code=1)
    assert says in err
    assert len(err.splitlines()) == 1
