"""A cohort for a benchmark, with a temporary database, keys and an adopted policy."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.topics import Topics
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store.open_database import open_store, sqlite_url

OPS, KEY = PrivateKey.generate(), PrivateKey.generate()
TOPICS = Topics("bench")


@contextmanager
def temporary_cohort(
    policy: Policy,
    *,
    clock: Callable[[], float] = time.time,
    grace_s: float = 1.0,
    roster: RosterSection | None = None,
    log: FilteringBoundLogger | None = None,
) -> Iterator[tuple[Cohort, Engine]]:
    """Yields the cohort and its database. Without a `roster` section every device is admitted at once."""
    with tempfile.TemporaryDirectory() as folder:
        engine = open_store(sqlite_url(Path(folder) / "ledger.db"))
        cohort = Cohort(
            engine,
            cohort=TOPICS.cohort,
            key=KEY,
            ops_keys=[OPS.public],
            grace_s=grace_s,
            clock=clock,
            roster=roster or RosterSection(admit_least=100_000),
            log=log or logger("error"),
        )
        cohort.receive([Arrived(TOPICS.policy, encode(OPS.sign(policy)))])
        try:
            yield cohort, engine
        finally:
            engine.dispose()
