"""A cohort for measurements: one stream, its policy, and what its devices send."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from sqlalchemy import Engine

from hushmq.broker.contract.messages import Batch, encode
from hushmq.broker.contract.packing import bits_for, pack
from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.contract.topics import Topics
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store.open_database import open_store
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

COHORT, STREAM = "capacity", "motion"
TOPICS = Topics(COHORT)
Scope = Literal["cohort", "device"]


def policy(*, period_ms: int, ticks: int, scope: Scope = "cohort") -> Policy:
    """Two states and one window."""
    theta = theta_message(BinaryTheta(0.15, 0.45, 0.15, 0.45))
    stream = StreamPolicy(
        states=("still", "moving"),
        period_ms=period_ms,
        discretiser=Threshold(at=1.0),
        theta=Assumption(start=theta, floor=theta),
        epsilon=Audiences(operator=4.0, public=1.0),
        windows={"window": Window(ticks=ticks, scopes=(scope,))},
    )
    return Policy(version=1, cohort=COHORT, streams={STREAM: stream})


def batch(first: int, count: int, *, after: int | None, seed: int = 0) -> bytes:
    """A batch of as many states, other ones for each seed."""
    states = bytes(one & 1 for one in random.Random(seed).randbytes(count))  # noqa: S311  # no secret
    bits = bits_for(2)
    return encode(Batch(first=first, after=after, count=count, bits=bits, states=pack(states, bits), noise=1))


@contextmanager
def opened_cohort(url: str, message: Policy, clock: Callable[[], float]) -> Iterator[tuple[Cohort, Engine]]:
    """A cohort that follows the policy, and its database."""
    ops, key = PrivateKey.generate(), PrivateKey.generate()
    engine = open_store(url)
    try:
        cohort = Cohort(
            engine,
            cohort=COHORT,
            key=key,
            ops_keys=[ops.public],
            grace_s=1.0,
            clock=clock,
            log=logger("error"),
            roster=RosterSection(admit_least=1_000_000),
        )
        cohort.receive([Arrived(TOPICS.policy, encode(ops.sign(message)))])
        cohort.calibrate()
        yield cohort, engine
    finally:
        engine.dispose()
