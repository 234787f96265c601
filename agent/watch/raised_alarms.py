"""The alarms that were raised, on disk, so that a restart does not publish what an alarm has stopped.

Stored are the name of the stream, a digest of what its states mean and of the policy's Θ, and the tick at which a stop
begins, which is the end of an hour: what a stream that stops shows anyway.
An alarm holds until ops push a policy with another meaning or another Θ for the stream.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from hushmq.agent.storage.outbox_mark import replace_durably
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem

FILE = "alarms.json"


class RaisedAlarms:
    """The alarms of one device. Used from one thread."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self.save_error: str | None = None
        """Why the alarm raised last could not be stored; None if it was."""
        try:
            found = json.loads(self._path.read_bytes()) if self._path.exists() else {}
            self._raised = {str(stream): _alarm(alarm) for stream, alarm in found.items()}
        except (OSError, ValueError, AttributeError, KeyError, TypeError, RecursionError):
            raise Problem(
                f"folder: {self._path} cannot be read, so it is unknown which streams an alarm has stopped: "
                "push a policy with the right Θ for all of them, then delete the file"
            ) from None
        self._stored = dict(self._raised)

    def stop_from(self, stream: str, policy: StreamPolicy) -> int | None:
        """The tick at which a stop begins, if an alarm was raised for this stream under this policy's meaning and Θ."""
        digest, stop_from = self._raised.get(stream, (None, 0))
        return stop_from if digest == _digest(policy) else None

    def add(self, stream: str, policy: StreamPolicy, stop_from: int) -> None:
        """Record an alarm; one that cannot be stored holds for this run, and is stored with a later call."""
        self._raised[stream] = _digest(policy), stop_from
        if self._raised == self._stored:
            return
        try:
            tree = {name: {"digest": one[0], "stop_from": one[1]} for name, one in self._raised.items()}
            replace_durably(self._path, json.dumps(tree, sort_keys=True).encode())
            self._stored, self.save_error = dict(self._raised), None
        except OSError as error:
            self.save_error = error.strerror


def _alarm(found: Any) -> tuple[str, int]:
    """The digest and the tick of an alarm; an older version stored no tick, and its stop has begun."""
    if isinstance(found, str):
        return found, 0
    return str(found["digest"]), int(found["stop_from"])


def _digest(policy: StreamPolicy) -> str:
    meaning = policy.model_dump_json(
        include={"states", "period_ms", "discretiser", "theta", "source", "epoch"}
    )
    return hashlib.sha256(meaning.encode()).hexdigest()
