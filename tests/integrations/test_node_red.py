"""Node-RED itself, from npm: a flow with its MQTT node reads what was released."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.calibrator.site import wait_until
from tests.integrations.released_site import RELEASE, released_site

NODE_RED = (
    Path(__file__).parents[2] / "build" / "integrations" / "node-red" / "node_modules" / ".bin" / "node-red"
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not NODE_RED.exists(), reason="Node-RED is not installed: make test-integrations"),
]


def flow(port: int, version: str, out: Path) -> list[dict[str, Any]]:
    """A broker, a node that reads releases from it, and one that appends them to a file.

    A node without a place on the page is one of settings, and does not run.
    """
    return [
        {"id": "hush-tab", "type": "tab", "label": "releases"},
        {
            "id": "hush-broker",
            "type": "mqtt-broker",
            "broker": "127.0.0.1",
            "port": str(port),
            "protocolVersion": version,
            "autoConnect": True,
            "usetls": False,
            "clientid": "",
            "keepalive": "60",
            "cleansession": True,
        },
        {
            "id": "hush-in",
            "x": 100,
            "y": 100,
            "type": "mqtt in",
            "z": "hush-tab",
            "topic": RELEASE,
            "qos": "1",
            "datatype": "utf8",
            "broker": "hush-broker",
            "nl": False,
            "rap": True,
            "rh": 0,
            "inputs": 0,
            "wires": [["hush-out"]],
        },
        {
            "id": "hush-out",
            "x": 300,
            "y": 100,
            "type": "file",
            "z": "hush-tab",
            "filename": str(out),
            "filenameType": "str",
            "appendNewline": True,
            "createDir": False,
            "overwriteFile": "false",
            "encoding": "none",
            "wires": [[]],
        },
    ]


@pytest.mark.parametrize(("kind", "version"), [("mosquitto", "5"), ("nats", "4")])
def test_a_flow_reads_a_release(
    kind: str, version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """As a subscriber, who may read releases and nothing else."""
    broker: BrokerProcess = request.getfixturevalue(kind)
    folder, out = tmp_path / "node-red", tmp_path / "releases"
    folder.mkdir()
    (folder / "flows.json").write_text(json.dumps(flow(broker.port, version, out)))
    login = {"user": "subscriber", "password": "subscriber-secret"}
    (folder / "flows_cred.json").write_text(json.dumps({"hush-broker": login}))
    settings = {"credentialSecret": False, "flowFile": "flows.json", "uiPort": 0, "uiHost": "127.0.0.1"}
    (folder / "settings.js").write_text(f"module.exports = {json.dumps(settings)};")
    with released_site(broker, tmp_path / "calibrator") as release:
        command = [str(NODE_RED), "--userDir", str(folder), "--settings", str(folder / "settings.js")]
        with (
            (tmp_path / "log").open("wb") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as running,
        ):
            try:
                wait_until(lambda: out.exists() and out.read_text().endswith("\n"), timeout=200)
            finally:
                running.terminate()
    assert decode(Release, out.read_bytes().splitlines()[-1]) == release
