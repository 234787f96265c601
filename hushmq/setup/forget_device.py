"""Forgets a device of a site: at the broker, in the calibrator's database, and on this machine if it ran here.

Rows are deleted first, then its status is cleared: a calibrator that runs learns from that, and clears the topics that
are its own; one that does not run clears them when it starts.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hushmq.agent.storage.folder_lock import lock
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import ROOT, Topics, level
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.service.log import logger
from hushmq.calibrator.calibrator_config import load
from hushmq.calibrator.roster.forgotten import forget_device
from hushmq.calibrator.store.open_database import check_exists, open_store, plain_engine
from hushmq.setup.household import OPS, Household

ANSWER_S = 5.0
CLEARED_S = 15.0
"""How long calibrator and broker may take to clear what is retained, and an agent here to end."""
QUIET_S = 1.5
"""So long nothing may be retained before that counts as cleared: a broker publishes the last will of a device whose
connection it has closed."""
TURN_S = 0.2


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How many rows were deleted, and what could not be done, in words."""

    rows: int
    left: list[str]


def forget(household: Household, device: str) -> Forgotten:
    """Forget a device; raise Problem where nothing is known of it, or the broker does not answer."""
    try:
        level(device)
    except ValueError as error:
        raise Problem(f"NAME: {error}") from None
    role = household.folder.description.role(device)
    if role not in {None, "device"}:
        raise Problem(f"{device} is no device of {household.path}: it has the role {role}")
    with _Retained.connected(household, device) as retained:
        known = role is not None or bool(retained.held())
        if sys.stderr.isatty():
            print("waiting until nothing of it is retained …", end="\r", file=sys.stderr, flush=True)
        if role is not None:
            household.revoke(device)
        rows = _delete_rows(household, device)
        if not known and not rows:
            raise Problem(f"nothing is known of a device {device!r} in {household.path}")
        left = [f"{topic} is still retained: {_why(topic)}" for topic in retained.clear()]
    return Forgotten(rows, left + _remove_folder(household.path / "here" / device))


def _delete_rows(household: Household, device: str) -> int:
    url = load(household.calibrator_file).database
    try:
        check_exists(plain_engine(url))
    except Problem:
        return 0  # no calibrator has run yet
    engine = open_store(url)
    try:
        with engine.begin() as db:
            return forget_device(db, device)
    finally:
        engine.dispose()


def _why(topic: str) -> str:
    if "/status/" in topic:
        return "ops may not clear it, or the device is still connected; generate the broker's configuration again"
    return "the calibrator clears it when it runs"


def _remove_folder(folder: Path) -> list[str]:
    """Remove the folder of a device that ran here, once its agent has ended; return what to do where it has not."""
    if not folder.exists():
        return []
    deadline = time.monotonic() + CLEARED_S
    while True:
        try:
            with open(lock(folder / "data"), "rb", buffering=0):
                shutil.rmtree(folder)
        except Problem:
            if time.monotonic() > deadline:
                return [f"its agent still runs in {folder}: stop it, and remove the folder"]
            time.sleep(TURN_S)
        except OSError as error:
            return [f"{folder} could not be removed: {error.strerror}"]
        else:
            return []


class _Retained:
    """What the broker retains about one device, as ops see it."""

    def __init__(self, household: Household, device: str) -> None:
        topics = Topics(household.cohort)
        below = f"{ROOT}/{household.cohort}"
        self._status = topics.status(device)
        self._held: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._connection = Connection(
            endpoints=[household.folder.endpoint(OPS)],
            client_id=f"forget-{household.cohort}-{time.monotonic_ns():x}",
            subscriptions=[
                self._status,
                topics.seen(device),
                f"{below}/noise/+/{device}",
                f"{below}/release/+/+/{device}",
            ],
            on_message=self._heard,
            keep_session=False,
            log=logger("error"),
        )

    @classmethod
    @contextmanager
    def connected(cls, household: Household, device: str) -> Iterator[_Retained]:
        """Connect, and wait for what is retained; Problem where the broker does not answer."""
        made = cls(household, device)
        made._connection.start()
        try:
            if not made._connection.wait_connected(ANSWER_S):
                why = made._connection.last_error or "no answer"
                raise Problem(f"the broker does not answer ({why}): start it with hushmq up {household.path}")
            time.sleep(QUIET_S)
            yield made
        finally:
            made._connection.stop()

    def held(self) -> list[str]:
        """The topics that retain something."""
        with self._lock:
            return sorted(topic for topic, held in self._held.items() if held)

    def clear(self) -> list[str]:
        """Clear the status, wait until nothing is retained, and return what still is."""
        asked = False
        deadline = time.monotonic() + CLEARED_S
        quiet_since = time.monotonic()
        while time.monotonic() < deadline:
            held = self.held()
            if self._status in held or not asked:
                try:
                    self._connection.publish(self._status, b"", retain=True)
                    asked = True
                except Offline:
                    pass  # tried again
            if held or not asked:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since >= QUIET_S:
                break
            time.sleep(TURN_S)
        return self.held()

    def _heard(self, topic: str, payload: bytes, _retained: bool) -> None:
        with self._lock:
            self._held[topic] = bool(payload)
