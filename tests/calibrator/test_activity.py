"""A stream of four states from end to end: real agents, a real calibrator and a real broker."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.messages import Release, Status, decode
from hushmq.broker.contract.noise_message import CategoricalNoiseMessage
from hushmq.broker.contract.policy_message import DeviceWindow, Window
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent import peer, running
from tests.agent.activity import CHAIN, SIMULATED, STATES, activity_policy
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import TOPICS, signed, sqlite, wait_until

STREAM = "motion"
DEVICES = ("wearable-1", "wearable-2", "wearable-3")
POLICY = activity_policy(
    windows={"second": Window(ticks=1000, scopes=("cohort", "device"))},
    device_windows={"own": DeviceWindow(ticks=1000, scale=40.0)},
)


def status(client: Client, device: str) -> Status | None:
    heard = client.heard.get(TOPICS.status(device))
    return decode(Status, heard[-1]) if heard else None


def scopes(found: list[Release], window: str) -> set[str]:
    return {one.scope for one in found if one.window == window}


def after_the_first(found: list[Release], window: str) -> list[Release]:
    """The cohort's releases of a window that begin after every device has released one.

    Ticks from before a device started count as the stand-in, so its first window is no sample of its chain.
    """
    first = {
        device: [one.last for one in found if (one.window, one.scope) == (window, device)]
        for device in DEVICES
    }
    if not all(first.values()):
        return []
    whole = max(min(ends) for ends in first.values())
    return [one for one in found if (one.window, one.scope) == (window, "cohort") and one.first > whole]


def true_within_noise(found: list[Release]) -> None:
    """All windows together are within eight standard errors of the chain's own frequencies."""
    truth = np.linalg.matrix_power(np.array(CHAIN), 200)[0]
    ticks = np.array([one.ticks for one in found])
    mean = np.array([one.frequencies for one in found]).T @ ticks / ticks.sum()
    errors = np.array([one.standard_errors for one in found]) * ticks[:, None]
    # neighbouring states are alike: a window's own frequencies are off by more than as many independent draws
    chance = np.sqrt((errors**2).sum(axis=0) + 4 * truth * ticks.sum()) / ticks.sum()
    assert (np.abs(mean - truth) < 8 * chance).all()


def test_four_states_from_sensors_to_a_verified_ledger(
    broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Agents accept the calibrator's proof and send; windows are released for the cohort and each device, also what
    devices count themselves; the calibrator is killed in between; frequencies are true; the ledger verifies.
    """
    config = write_config(tmp_path / "calibrator", broker)
    with ExitStack() as stack:
        wanted = [TOPICS.all(kind) for kind in ("release", "ledger", "noise", "status")]
        ops = stack.enter_context(Client(broker, "ops", *wanted))
        with process(config) as child:
            ops.say(TOPICS.policy, signed(POLICY), retain=True)
            ops.wait_for_setting()
            for number, device in enumerate(DEVICES):
                source = SIMULATED.replace("seed = 7", f"seed = {number}")
                file = peer.write_config(
                    tmp_path / device, broker.port, source=source, device=device, publish="beat_ms = 300"
                )
                stack.enter_context(running.process(file, log=tmp_path / f"{device}.log"))
            wait_until(lambda: scopes(ops.releases(), "second") >= {"cohort", *DEVICES})
            child.send_signal(signal.SIGKILL)
            child.wait(10)
        before = ops.ledger()
        assert before is not None
        with process(config) as child:
            wait_until(lambda: (one := ops.ledger()) is not None and one.entries > before.entries + 2)
            wait_until(lambda: after_the_first(ops.releases(), "own"))
            wait_until(lambda: after_the_first(ops.releases(), "second"))
            wait_until(lambda: all((one := status(ops, device)) and one.streams for device in DEVICES))
            for device in DEVICES:
                told = status(ops, device)
                assert told is not None
                assert told.refused is None
                assert told.streams[STREAM].refused is None
                assert told.streams[STREAM].noise is not None
            ledger = ops.ledger()
            assert ledger is not None
            assert ledger.stopped is None
            assert 0 < ledger.public.loss <= 2.0
            assert 0 < ledger.operator.loss <= 4.0
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == 0
        setting, found = ops.setting(), ops.releases()
    assert setting is not None
    assert isinstance(setting.noise, CategoricalNoiseMessage)
    for one in found:
        assert one.states == STATES
        assert one.loss <= one.budget
    for window in ("second", "own"):
        true_within_noise(after_the_first(found, window))
    capsys.readouterr()
    url = sqlite(tmp_path / "calibrator")
    assert main(["ledger", "verify", "--database", url, "--json"]) == 0, capsys.readouterr().out
    assert main(["ledger", "show", "--database", url, "--json"]) == 0
    told_ = json.loads(capsys.readouterr().out.splitlines()[-1])[STREAM]
    assert len(told_["theta"]["low"]) == 4
    assert {row["scope"] for row in told_["entries"]} == {"cohort", "device"}
