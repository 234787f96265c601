"""Everything retained heals: what a broker has lost, holds older or holds as garbage is as it was, by itself.

The broker is stopped and started again on an older copy of its store, on an empty one, and on one in which every topic
holds garbage. Whoever comes then finds what the calibrator, the devices and ops published last.
"""

from __future__ import annotations

import io
import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from hushmq.broker.contract.messages import LedgerState, NoiseSetting, Release, Seen, decode, encode
from hushmq.broker.contract.policy_message import Audiences, Policy, Window
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from hushmq.calibrator.ingest import settling
from hushmq.calibrator.ingest.inbox import Arrived, Inbox
from hushmq.calibrator.policy.follow_policy import FollowedPolicy
from hushmq.calibrator.serve_cohort import ServedCohort
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import (
    OPS,
    STRANGER,
    STREAM,
    TOPICS,
    Desk,
    batch,
    desk,
    policy,
    signed,
    sqlite,
    states,
    wait_until,
)

EVERYTHING = f"{TOPICS.policy.rsplit('/', 1)[0]}/#"
WINDOWS = {"short": Window(ticks=20)}
FIRST = policy(period_ms=20, windows=WINDOWS)
SECOND = policy(2, period_ms=20, windows=WINDOWS, epsilon=Audiences(operator=3.0, public=1.0))
DEVICE = "wearable-1"
RELEASE = TOPICS.release(STREAM, "short", "cohort")
KINDS = {
    "policy": TOPICS.policy,
    "noise": TOPICS.noise(STREAM),
    "seen": TOPICS.seen(DEVICE),
    "release": RELEASE,
    "ledger": TOPICS.ledger(STREAM),
}


def places(heard: dict[str, list[bytes]]) -> dict[str, int]:
    """How far each kind has come, by what was heard last on its topic; 0 where it is nothing or garbage."""
    found = dict.fromkeys(KINDS, 0)
    for kind, topic in KINDS.items():
        payload = heard[topic][-1] if heard.get(topic) else b""
        try:
            found[kind] = _place(kind, payload)
        except Rejected:
            continue
    return found


def _place(kind: str, payload: bytes) -> int:
    match kind:
        case "policy":
            return decode(Signed[Policy], payload).message.version
        case "noise":
            return decode(Signed[NoiseSetting], payload).message.version
        case "seen":
            return decode(Seen, payload).streams[STREAM].highest
        case "release":
            return decode(Release, payload).entry
    return decode(LedgerState, payload).entries


def a_window(broker: BrokerProcess, ops: Client, entries: int) -> None:
    """A device sends, and the windows over it are released."""
    setting = ops.setting()
    assert setting is not None
    first = int(time.time() * 1000) // 20
    with Client(broker, DEVICE) as device:
        payload = batch(first, states(20, seed=first), noise=setting.version)
        device.say(TOPICS.batch(DEVICE, STREAM), payload)
    wait_until(lambda: (one := ops.ledger_state()) is not None and one.entries >= entries)
    wait_until(lambda: places(ops.heard)["release"] >= entries)
    wait_until(lambda: (one := ops.seen(DEVICE)) is not None and one.streams[STREAM].highest >= first + 19)


def comes_back(broker: BrokerProcess, wanted: dict[str, int]) -> None:
    """Whoever comes now finds everything at least where it was."""
    broker.start()

    def healed() -> bool:
        with Client(broker, "ops", EVERYTHING) as newcomer:
            wait_until(lambda: all(newcomer.heard.get(topic) for topic in KINDS.values()))
            time.sleep(0.2)
            found = places(newcomer.heard)
        return all(found[kind] >= wanted[kind] for kind in KINDS)

    wait_until(healed)


def test_a_broker_that_comes_back_older_empty_or_spoilt(broker: BrokerProcess, tmp_path: Path) -> None:
    """Policy 2 is followed; the broker comes back with policy 1, with none, with garbage: it retains policy 2 again,
    and the newest of everything else.
    """
    config, copy = write_config(tmp_path / "calibrator", broker), tmp_path / "copy"
    with process(config) as child:
        with Client(broker, "ops", EVERYTHING) as ops:
            ops.say(TOPICS.policy, signed(FIRST), retain=True)
            ops.wait_for_setting()
            a_window(broker, ops, entries=1)
        broker.stop()
        shutil.copytree(broker.folder, copy)
        broker.start()
        with Client(broker, "ops", EVERYTHING) as ops:
            ops.say(TOPICS.policy, signed(SECOND), retain=True)
            ops.wait_for_setting(2)
            a_window(broker, ops, entries=3)
            wanted = places(ops.heard)
        assert wanted["policy"] == 2
        assert wanted["noise"] >= 2
        broker.kill()
        shutil.rmtree(broker.folder)
        shutil.copytree(copy, broker.folder)
        comes_back(broker, wanted)

        broker.kill()
        shutil.rmtree(broker.folder)
        comes_back(broker, wanted)

        with Client(broker, "calibrator") as other:
            for topic in KINDS.values():
                other.say(topic, b"garbage", retain=True)
        broker.stop()
        comes_back(broker, wanted)
        assert child.poll() is None


@pytest.fixture
def here(tmp_path: Path) -> object:
    with desk(sqlite(tmp_path)) as one:
        one.adopt(FIRST)
        yield one


def offer(here: Desk, payload: bytes) -> bytes | None:
    here.cohort.receive([Arrived(TOPICS.policy, payload)])
    return here.cohort.policy_payload


def test_a_newer_policy_that_is_not_followed_is_left_alone(here: Desk) -> None:
    """Ops have signed a policy that this ledger cannot follow: the calibrator does not put an older one over it."""
    ours = here.cohort.policy_payload
    assert ours == signed(FIRST)
    assert offer(here, signed(policy(2, period_ms=30, windows=WINDOWS), STRANGER)) == ours
    assert offer(here, b"garbage") == ours
    assert offer(here, signed(policy(2, period_ms=30, windows=WINDOWS))) is None
    assert offer(here, signed(policy(3, period_ms=20, windows=WINDOWS))) is not None


class Written:
    """An outlet that takes everything and remembers what was published on the policy's topic."""

    connected = True

    def __init__(self) -> None:
        self.policies: list[bytes] = []

    def publish(self, topic: str, payload: bytes, **_: object) -> None:
        if topic == TOPICS.policy:
            self.policies.append(payload)


def test_what_came_while_we_were_away_is_not_overwritten(here: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops push while the calibrator is away from the broker: it does not put its own policy over that one first, or a
    crash at that moment would lose theirs for good.
    """
    now, outlet, inbox = [100.0], Written(), Inbox(logger("error", "json", io.StringIO()))
    monkeypatch.setattr(settling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    served = ServedCohort(here.cohort, inbox, grace_s=1.0, seen_every_s=1.0)
    served.begin()
    served.turn(outlet)
    assert outlet.policies == []
    now[0] += 2 * settling.SETTLING_S
    served.turn(outlet)
    assert outlet.policies == [signed(FIRST)]
    served.reconnected()
    served.turn(outlet)
    served.turn(outlet)
    inbox.put(Arrived(TOPICS.policy, signed(SECOND)))
    now[0] += 2 * settling.SETTLING_S
    served.turn(outlet)
    assert outlet.policies[1:] == [signed(SECOND)]


def test_a_policy_signed_again_is_kept_under_its_new_signature(here: Desk, tmp_path: Path) -> None:
    """Ops have replaced their key and signed the same policy again: that is what is put back from then on."""
    again = encode(STRANGER.sign(FIRST))
    assert offer(here, again) == signed(FIRST)
    with desk(sqlite(tmp_path), ops=(OPS, STRANGER)) as both:
        assert offer(both, again) == again
    with desk(sqlite(tmp_path), ops=(STRANGER,)) as new:
        assert new.cohort.policy_payload == again
    with desk(sqlite(tmp_path), ops=(OPS,)) as old:
        assert old.cohort.policy_payload is None


def test_a_setting_of_ours_that_the_database_lost_is_in_force_again(here: Desk, tmp_path: Path) -> None:
    """An older database and a newer setting on the broker: it is restored, and not overwritten by an older version."""
    path = tmp_path / "older.db"
    here.engine.dispose()
    shutil.copy(tmp_path / "ledger.db", path)
    here.cohort.receive([Arrived(TOPICS.policy, signed(SECOND))])
    newer = here.cohort.calibrate()[STREAM]
    assert newer.message.version == 2
    with desk(f"sqlite:///{path}") as older:
        older.cohort.receive([Arrived(TOPICS.policy, signed(SECOND))])
        received = older.cohort.receive([Arrived(TOPICS.noise(STREAM), newer.payload)])
        assert received.restored
        assert older.cohort.calibrate()[STREAM].message.version >= 2
        assert not older.cohort.receive([Arrived(TOPICS.noise(STREAM), newer.payload)]).restored


def test_what_is_stored_says_which_version(here: Desk) -> None:
    """The bytes that are put back are those that ops signed."""
    payload = here.cohort.policy_payload
    assert payload is not None
    assert json.loads(payload)["message"]["version"] == 1
    with here.engine.begin() as db:
        found = FollowedPolicy(db, cohort="test", ops_keys=[OPS.public], log=None)  # type: ignore[arg-type]
    assert found.payload == payload
