"""A device that is two, or older: what was counted of it is above what its folder has used."""

from __future__ import annotations

import io
import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.agent.storage.outbox_releases import MadeRelease
from hushmq.broker.contract.messages import Counted
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.peer import Peer, noise, policy, wait_until, write_config
from tests.agent.running import running


def put_back_an_older_image(peer: Peer, config: Path) -> int:
    """Run an agent, copy its folder, run it on, and put the copy back. Returns the highest tick counted so far."""
    state, image = config.parent / "state", config.parent / "image"
    peer.push(policy())
    peer.push(noise())
    with running(config):
        wait_until(lambda: len(peer.counted["motion"]) > 100)
    shutil.copytree(state, image)
    with running(config) as agent:
        begun = agent._outbox.balances["motion"].watermark
        wait_until(lambda: max(peer.counted["motion"]) > begun + 200)
    shutil.rmtree(state)
    shutil.copytree(image, state)
    return max(peer.counted["motion"])


def test_an_older_image_uses_no_tick_again(nats: BrokerProcess, tmp_path: Path) -> None:
    """A folder is put back as it was: the retained `seen` is above its watermark, so nothing of it leaves, no tick that
    was counted is published again with another noise, and the log says so.
    """
    config = write_config(tmp_path / "device", nats.port)
    with Peer(nats) as peer:
        counted = put_back_an_older_image(peer, config)
        log = io.StringIO()
        with running(config, log=log):
            wait_until(lambda: max(peer.counted["motion"]) > counted + 100)
        assert all(len(payloads) == 1 for payloads in peer.payloads.values())
        runs = sorted((one.first, one.last) for one in set(peer.batches))
        assert all(left[1] < right[0] for left, right in pairwise(runs))
    said = [json.loads(line) for line in log.getvalue().splitlines() if "folder_is_older" in line]
    assert [one["stream"] for one in said] == ["motion"]
    assert said[0]["used"] < said[0]["counted"]


def test_an_older_image_that_hears_late_uses_no_tick_again(
    nats: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for an image that has made the ticks again by the time the broker is there: none of them leaves."""
    config, connect = write_config(tmp_path / "device", nats.port), Connection.start
    with Peer(nats) as peer:
        counted = put_back_an_older_image(peer, config)
        monkeypatch.setattr(Connection, "start", lambda _: None)
        with running(config) as agent:
            wait_until(lambda: agent._outbox.balances["motion"].watermark > counted + 100)
            made = agent._outbox.balances["motion"].watermark
            connect(agent._connection)
            wait_until(lambda: max(peer.counted["motion"]) > made)
        assert peer.no_tick_was_made_twice()


def test_what_waits_below_the_counted_is_dropped_and_counted_so(tmp_path: Path) -> None:
    """Waiting batches of ticks that the other one may have used do not leave; the balance holds."""
    outbox = Outbox(tmp_path, max_bytes=100_000, max_age_s=3600)
    made = [MadeBatch("motion", first, first + 9, b"x") for first in (0, 10, 20)]
    outbox.commit(made, periods={"motion": 1000}, seen={}, now_ms=0)
    assert outbox.give_up("motion", 15, 1000) == 20
    balance = outbox.balances["motion"]
    assert (balance.sampled, balance.buffered, balance.dropped, balance.watermark) == (30, 10, 20, 29)
    assert outbox.give_up("motion", 99, 1000) == 10
    outbox.commit([], periods={}, seen={"motion": Counted(highest=99)}, now_ms=0)
    balance = outbox.balances["motion"]
    assert (balance.sampled, balance.buffered, balance.dropped, balance.watermark) == (30, 0, 0, 99)
    outbox.close()
    again = Outbox(tmp_path, max_bytes=100_000, max_age_s=3600)
    assert again.balances["motion"].watermark >= 99
    again.close()


def test_releases_of_given_up_ticks_do_not_leave(tmp_path: Path) -> None:
    """A waiting release of a window that begins below the counted is dropped, and its window stays released."""
    outbox = Outbox(tmp_path, max_bytes=100_000, max_age_s=3600)
    releases = [MadeRelease("motion", "hour", first, b"x") for first in (0, 10, 20)]
    batch = MadeBatch("motion", 0, 29, b"x")
    outbox.commit([batch], periods={"motion": 1000}, seen={}, now_ms=0, releases=releases)
    outbox.give_up("motion", 15, 1000)
    assert list(outbox.releases.unsent) == [("motion", "hour", 20)]
    outbox.give_up("motion", 29, 1000)
    assert not outbox.releases.unsent
    assert outbox.releases.released == {("motion", "hour"): (20, 3)}
    outbox.close()
