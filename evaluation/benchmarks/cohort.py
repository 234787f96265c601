"""A cohort's database for a benchmark: in a folder that is gone afterwards, its keys, its policy followed."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine

from broker.log import logger
from broker.messages import Policy, encode
from broker.signature import PrivateKey
from broker.topics import Topics
from calibrator import store
from calibrator.cohort import Cohort
from calibrator.receive import Arrived

OPS, KEY = PrivateKey.generate(), PrivateKey.generate()
TOPICS = Topics("bench")


@contextmanager
def benched(
    policy: Policy, *, clock: Callable[[], float] = time.time, grace_s: float = 1.0
) -> Iterator[tuple[Cohort, Engine]]:
    """The cohort, and its database."""
    with tempfile.TemporaryDirectory() as folder:
        engine = store.open_store(store.sqlite_url(Path(folder) / "ledger.db"))
        cohort = Cohort(
            engine,
            cohort=TOPICS.cohort,
            key=KEY,
            ops_keys=[OPS.public],
            grace_s=grace_s,
            clock=clock,
            log=logger("error"),
        )
        cohort.take([Arrived(TOPICS.policy, encode(OPS.sign(policy)))])
        try:
            yield cohort, engine
        finally:
            engine.dispose()
