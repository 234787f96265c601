"""A site of one device and one window, of which there is a release, and entities for Home Assistant."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hushmq.broker.contract.messages import Release, Status, decode, encode
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import STREAM, TOPICS, batch, policy, signed, states, wait_until

PERIOD_MS, TICKS = 20, 200
RELEASE = TOPICS.release(STREAM, "short", "cohort")
DISCOVERY = "[home_assistant]\ndiscovery = true"


@contextmanager
def released_site(broker: BrokerProcess, folder: Path) -> Iterator[Release]:
    """Run a calibrator until there is a release, and stop it, so that this stays the newest; everything is retained."""
    rules = policy(period_ms=PERIOD_MS, windows={"short": Window(ticks=TICKS)})
    with (
        Client(broker, "ops", RELEASE, TOPICS.all("noise")) as ops,
        Client(broker, "wearable-1") as device,
    ):
        with process(write_config(folder, broker, sections=DISCOVERY)):
            ops.say(TOPICS.policy, signed(rules), retain=True)
            ops.wait_for_setting()
            device.say(TOPICS.status("wearable-1"), encode(Status(online=True, policy=1)), retain=True)
            first = int(time.time() * 1000) // PERIOD_MS
            device.say(TOPICS.batch("wearable-1", STREAM), batch(first, states(2 * TICKS)))
            with Client(broker, "home-assistant", "homeassistant/#") as reader:
                wait_until(lambda: ops.heard.get(RELEASE) and len(reader.heard) >= 2)
        yield decode(Release, ops.heard[RELEASE][-1])
