"""A stream with hidden regimes from end to end: real agents, a real calibrator and a real broker."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.messages import Status, decode
from hushmq.broker.contract.policy_message import DeviceWindow, Policy, Window
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent import peer, running
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import TOPICS, signed, sqlite, wait_until
from tests.calibrator.test_regimes import SET, stream_policy

STREAM = "motion"
DEVICES = ("wearable-1", "wearable-2")
POLICY = Policy(
    version=1,
    cohort="test",
    streams={
        STREAM: stream_policy(
            period_ms=10,
            windows={"second": Window(ticks=100, scopes=("cohort", "device"))},
            device_windows={"own": DeviceWindow(ticks=100, scale=400.0)},
        )
    },
)


def test_regimes_from_sensors_to_a_verified_ledger(
    nats: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Devices recompute the loss of their noise under every chain and send; windows are released within ε, also what
    devices count themselves; the calibrator is killed in between; the ledger verifies.
    """
    config = write_config(tmp_path / "calibrator", nats)
    with ExitStack() as stack:
        wanted = [TOPICS.all(kind) for kind in ("release", "ledger", "noise", "status")]
        ops = stack.enter_context(Client(nats, "ops", *wanted))
        with process(config) as child:
            ops.say(TOPICS.policy, signed(POLICY), retain=True)
            ops.wait_for_setting()
            for device in DEVICES:
                file = peer.write_config(tmp_path / device, nats.port, device=device, publish="beat_ms = 300")
                stack.enter_context(running.process(file, log=tmp_path / f"{device}.log"))
            wait_until(lambda: {one.scope for one in ops.releases()} >= {"cohort", *DEVICES})
            child.send_signal(signal.SIGKILL)
            child.wait(10)
        before = ops.ledger()
        assert before is not None
        with process(config) as child:
            wait_until(lambda: (one := ops.ledger()) is not None and one.entries > before.entries + 2)
            wait_until(lambda: {one.window for one in ops.releases()} == {"second", "own"})
            wait_until(lambda: all(ops.heard.get(TOPICS.status(device)) for device in DEVICES))
            for device in DEVICES:
                told = decode(Status, ops.heard[TOPICS.status(device)][-1])
                assert told.refused is None
                assert told.streams[STREAM].refused is None
            ledger = ops.ledger()
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == 0
        setting, found = ops.setting(), ops.releases()
    assert ledger is not None
    assert ledger.stopped is None
    assert 0 < ledger.public.loss <= 2.0
    assert 0 < ledger.operator.loss <= 4.0
    assert setting is not None
    assert setting.theta == theta_message(SET)
    assert all(one.loss <= one.budget and one.theta == theta_message(SET) for one in found)
    capsys.readouterr()
    url = sqlite(tmp_path / "calibrator")
    assert main(["ledger", "verify", "--database", url, "--json"]) == 0, capsys.readouterr().out
    assert main(["ledger", "show", "--database", url, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])[STREAM]
    assert len(shown["theta"]["regimes"]) == 2
