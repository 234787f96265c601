"""Messages of every kind, changed at random, on every topic that the calibrator reads: the cohort goes on.

`make fuzz` runs it for longer. A failure says the round, which HUSHMQ_FUZZ_SEED repeats.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

import pytest

from hushmq.broker.contract.messages import Release, Status, StreamStatus, decode, encode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Reason
from hushmq.calibrator.calibrator_config import DevicesSection
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.windows.outgoing import OutgoingAggregate
from tests.calibrator.site import OPS, START, STREAM, TOPICS, Desk, desk, from_device, policy, sqlite, states
from tests.calibrator.windows.test_collect_device_windows import POLICY, TICKS, made
from tests.mutations import mutated, rounds

LIMITS = DevicesSection(burst=1_000_000, messages_per_s=10_000)


def messages(here: Desk, device: str, first: int) -> list[Arrived]:
    """A right message of every kind that the calibrator reads."""
    stream = StreamStatus(noise=1, sampled=10, buffered=0, dropped=0)
    return [
        made(here, device, first, (4, 5)),
        from_device(device, first, states(TICKS)),
        Arrived(TOPICS.policy, encode(OPS.sign(policy(2)))),
        Arrived(TOPICS.noise(STREAM), here.cohort.calibrate()[STREAM].payload),
        Arrived(TOPICS.ledger(STREAM), encode(here.cohort.ledger_states()[0])),
        Arrived(TOPICS.status(device), encode(Status(online=True, policy=1, streams={STREAM: stream}))),
        Arrived(TOPICS.seen(device), encode(here.cohort.seen(device))),
    ]


def resigned(payload: bytes) -> bytes:
    """A changed policy under the signature of ops who were deceived, where it is one."""
    try:
        return encode(OPS.sign(Policy.model_validate_json(payload)))
    except Exception:  # noqa: BLE001  # whatever is wrong with it, it is sent as it is
        return payload


def changed(right: list[Arrived], rng: random.Random) -> Arrived:
    one = rng.choices(right, [6, 2, 1, 1, 1, 1, 1])[0]
    topic = rng.choice(right).topic if rng.random() < 0.1 else one.topic
    if one.topic == TOPICS.policy and rng.random() < 0.5:
        return Arrived(topic, resigned(mutated(encode(policy(rng.choice((1, 2, 3)))), rng)))
    return Arrived(topic, mutated(one.payload, rng))


@pytest.mark.slow
def test_no_message_ends_the_calibrator_or_stops_the_cohort(tmp_path: Path) -> None:
    """Whatever arrives, an honest device is counted, windows close, and what is refused is counted as refused.

    A changed policy under the signature of ops is followed, and may have longer windows: as many close as are due by
    the policy that is followed, but for three at each site, which two changes of policy and the end may cut short.
    """
    released = number = rejected = sites = 0
    due = 0.0
    here: Desk | None = None
    with ExitStack() as stack:
        for number, rng in enumerate(rounds(40), 1):
            if here is None or STREAM not in here.cohort.calibrate():
                # At the start, and where ops signed a policy for which there is no noise: a new site.
                stack.close()
                sites += 1
                folder = tmp_path / str(number)
                folder.mkdir()
                here = stack.enter_context(desk(sqlite(folder), devices=LIMITS))
                here.adopt(POLICY)
            before = here.cohort.rejected.total()
            first = START + number * TICKS
            here.clock.tick = first + TICKS + 1.5
            right = messages(here, f"bad-{number}", first)
            here.cohort.receive([from_device("honest", first, states(TICKS, seed=number), noise=1)])
            for _ in range(40):
                here.cohort.receive([changed(right, rng)])
            released += len(here.cohort.close_due().windows)
            assert here.cohort.policy is not None
            windows = here.cohort.policy.streams[STREAM].windows.values()
            due += sum(TICKS / window.ticks for window in windows)
            here.cohort.calibrate()
            here.cohort.calibrate_devices()
            assert here.cohort.ledger_states(), number
            assert here.seen("honest").streams[STREAM].highest == first + TICKS - 1, number
            assert here.cohort.failed == {}, number
            assert "Traceback" not in here.log.getvalue(), number
            rejected += here.cohort.rejected.total() - before
    assert due > number / 4
    assert released >= due - 3 * sites
    assert rejected > 10 * number
    assert sites < number // 2


@pytest.mark.parametrize(
    "changes",
    [
        {"counts": (9 - 10**400, 10**400)},
        {"counts": (9 - 2**62 + 1, 2**62 - 1)},
        {"counts": (9 - 5000, 5000)},
        {"scale": 1e300},
        {"scale": 1e12, "counts": (9 - 10**14, 10**14)},
        {"tilt": 10**400},
        {"loss": 1e308},
    ],
)
def test_a_release_with_impossible_numbers_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    """With one device's credentials it ended the calibrator for good; now it is refused, and the others are summed."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(POLICY)
        here.clock.tick = START + TICKS + 2
        here.cohort.receive([made(here, "bad", START, (4, 5), **changes), made(here, "good", START, (4, 5))])
        assert here.cohort.rejected == {Reason.MALFORMED: 1}
        here.cohort.close_due()
        (total,) = [one for one in here.cohort.unsent() if isinstance(one, OutgoingAggregate)]
        assert decode(Release, total.payload).devices == 1


def test_a_stored_release_that_cannot_be_used_is_passed_over(tmp_path: Path) -> None:
    """An older version stored what today's refuses: it is said, it is in no sum, and the window closes without it."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(POLICY)
        here.clock.tick = START + TICKS + 2
        here.cohort.receive([made(here, name, START, (4, 5)) for name in ("good", "bad")])
        bad = made(here, "bad", START, (4, 5), counts=(9 - 10**400, 10**400)).payload
        with here.engine.begin() as db:
            db.execute(store.collected.update().where(store.collected.c.device == "bad").values(payload=bad))
        here.cohort.close_due()
        (total,) = [one for one in here.cohort.unsent() if isinstance(one, OutgoingAggregate)]
        assert decode(Release, total.payload).devices == 1
        assert here.log.getvalue().count("release_unusable") == 1
        here.cohort.close_due()
        assert here.log.getvalue().count("release_unusable") == 1
