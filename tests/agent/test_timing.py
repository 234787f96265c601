"""When bytes leave a device tells nothing about the noise in them: measured at the far side of a real broker.

Drawing and storing noise is made to take a third of a beat longer where more bits than usual are flipped, a thousand
times more than it ever could. At the moment of storing the correlation is then plain; at the subscriber it has to be
gone, because a batch leaves with the next beat. That is promised as long as a beat suffices for its work: on a machine
so busy that it does not, a batch is left out of the measurement.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hushmq.agent.perturb import Mechanism
from hushmq.agent.sources.beat_schedule import BeatSchedule
from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.broker.contract.messages import Batch, decode
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.broker.contract.packing import unpack
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from tests.agent.peer import DEVICE, Peer, noise, policy, wait_until, write_config
from tests.agent.running import running

PERIOD_MS, BEAT_MS = 2, 120
BATCHES = 100
SLOW_S = 0.04
"""What a batch with more flips than usual takes longer."""
USUAL = BEAT_MS / PERIOD_MS * binary_noise_of(noise().noise).rho0
LIMIT = 5.5
"""Standard deviations of a rank correlation: beyond by chance once in 26 million runs."""


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value; equal ones share their mean rank."""
    order = sorted(values)
    return [(order.index(value) + len(order) - 1 - order[::-1].index(value)) / 2 for value in values]


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float:
    """Spearman's correlation in standard deviations under independence, which outliers do not disturb."""
    a, b = ranks(left), ranks(right)
    middle = (len(a) - 1) / 2
    product = sum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    size = (sum((x - middle) ** 2 for x in a) * sum((y - middle) ** 2 for y in b)) ** 0.5
    return float(product / size * (len(a) - 1) ** 0.5) if size else 0.0


def test_the_measure_finds_a_correlation_and_no_other() -> None:
    up = [float(n) for n in range(BATCHES)]
    assert rank_correlation(up, up) > 9
    assert rank_correlation(up, up[::-1]) < -9
    assert abs(rank_correlation(up, [float(n * 37 % BATCHES) for n in range(BATCHES)])) < 3
    assert rank_correlation(up, [1.0] * BATCHES) == 0


def test_when_a_batch_arrives_tells_nothing_about_its_noise(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times are milliseconds after the beat of a batch, on one clock; no value ever comes, so that ones are flips."""
    beats = BeatSchedule.of(DEVICE, BEAT_MS)
    stored: dict[int, float] = {}
    arrived: dict[int, float] = {}
    slow: dict[int, bool] = {}

    def after_beat(last: int) -> float:
        """Milliseconds since the beat that a batch up to this tick was due at."""
        ended = (last + 1) * PERIOD_MS * 1_000_000
        return (time.time_ns() - ended - (beats.wait_ns(ended - 1) - 1)) / 1e6

    make, commit = Mechanism.batches, Outbox.commit

    def slowly(self: Mechanism, *args: Any, **options: Any) -> list[MadeBatch]:
        made = make(self, *args, **options)
        for one in made:
            batch = decode(Batch, one.payload)
            slow[one.first] = sum(unpack(batch.states, batch.count)) > USUAL
            time.sleep(SLOW_S * slow[one.first])
        return made

    def noting(self: Outbox, made: Sequence[MadeBatch], **options: Any) -> None:
        commit(self, made, **options)
        stored.update({one.first: after_beat(one.last) for one in made})

    def arrives(payload: bytes) -> None:
        batch = decode(Batch, payload)
        arrived.setdefault(batch.first, after_beat(batch.last))

    monkeypatch.setattr(Mechanism, "batches", slowly)
    monkeypatch.setattr(Outbox, "commit", noting)

    def in_time() -> list[int]:
        """The batches that were stored well before the next beat, but the first ones, when settings came."""
        return [first for first in sorted(arrived)[5:] if stored[first] < 0.8 * BEAT_MS]

    listener = Connection(
        endpoints=[broker.endpoint("calibrator")],
        client_id="listener",
        subscriptions=["hush/1/test/z/#"],
        on_message=lambda _, payload, __: arrives(payload),
        log=logger("error", "json", io.StringIO()),
    )
    listener.start()
    assert listener.wait_connected(10)
    try:
        with Peer(broker, listening=False) as peer:
            peer.push(policy())
            peer.push(noise())
            config = write_config(
                tmp_path, broker.port, source='kind = "offer"', publish=f"beat_ms = {BEAT_MS}"
            )
            with running(config):
                wait_until(lambda: len(in_time()) >= BATCHES, 80)
                found = in_time()
    finally:
        listener.stop()
    ones = [float(slow[first]) for first in found]
    assert rank_correlation(ones, [stored[first] for first in found]) > LIMIT
    assert abs(rank_correlation(ones, [arrived[first] for first in found])) < LIMIT
    assert min(arrived[first] for first in found) > 0.8 * BEAT_MS
