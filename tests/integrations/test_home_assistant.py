"""Home Assistant itself, from its package: it finds the entities, and shows what was released."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hushmq.broker.provision.broker_process import BrokerProcess
from tests.integrations.released_site import released_site

PYTHON = Path(__file__).parents[2] / "build" / "integrations" / "home-assistant" / "bin" / "python"
SCRIPT = Path(__file__).parent / "home_assistant_states.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON.exists(), reason="Home Assistant is not installed: make test-integrations"),
]


@pytest.mark.parametrize(("kind", "protocol"), [("mosquitto", "5"), ("nats", "3.1.1")])
def test_it_shows_a_release_and_a_device(
    kind: str, protocol: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With MQTT 5 at Mosquitto, as it alone will speak from 2027.1 on, and with 3.1.1 at NATS."""
    broker: BrokerProcess = request.getfixturevalue(kind)
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "configuration.yaml").write_text("homeassistant:\n")
    with released_site(broker, tmp_path / "calibrator") as release:
        login = [str(broker.port), protocol, "home-assistant", "home-assistant-secret"]
        command = [str(PYTHON), str(SCRIPT), str(folder), *login, "120"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["entry"] == "ConfigEntryState.LOADED", ran.stderr
    shares = {name: one for name, one in told["states"].items() if name.startswith("sensor.")}
    devices = {name: one for name, one in told["states"].items() if name.startswith("binary_sensor.")}
    (share,), (device,) = shares.values(), devices.values()
    assert float(share["state"]) == pytest.approx(100 * release.frequencies[1], abs=0.06)
    assert (share["share_of"], share["unit_of_measurement"], share["devices"]) == ("moving", "%", 1)
    assert share["loss_about_any_one_instant"] == pytest.approx(release.loss, abs=1e-3)
    assert (device["state"], device["policy"]) == ("on", 1)
