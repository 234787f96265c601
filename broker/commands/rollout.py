"""Reads from a cohort's topics which policy is in force, and which devices have applied a new one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hushmq.broker.contract.messages import LedgerState, NoiseSetting, Refusal, Status, decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem, Reason, Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.service.log import logger

State = Literal["applied", "waiting for noise", "refused", "silent", "offline", "held back"]
FINAL: frozenset[State] = frozenset({"applied", "refused", "offline", "held back"})
"""States that a device does not leave while the roll-out is followed."""
LEAP = 1000
"""How far ahead of the retained policy and settings a device's policy can be."""
LAST_VERSION = 2**53 - 1
"""A policy that states this version or a higher one is none: there would be no next one."""
SETTLED_S = 1.0
"""Seconds without a retained message after which all of them are considered received."""


@dataclass(slots=True)
class Received:
    """The messages received so far."""

    policy: Policy | None = None
    """The policy in force; None also where it breaks a rule that came later, so that devices refuse it."""
    policy_key: str | None = None
    """The id of the key that signed it, as it states."""
    policy_version: int = 0
    """The highest version retained as the policy, or stated by a noise setting; 0 where nothing was."""
    settings: dict[str, NoiseSetting] = field(default_factory=dict)
    statuses: dict[str, Status] = field(default_factory=dict)
    ledgers: dict[str, LedgerState] = field(default_factory=dict)

    @property
    def highest_version(self) -> int:
        """The highest policy version that anyone states: a broker that comes back older retains an older policy.

        A device may state anything: one that is LEAP versions ahead of policy and settings is not believed.
        """
        stated = [status.policy or 0 for status in self.statuses.values()]
        stated += [status.refused.version or 0 for status in self.statuses.values() if status.refused]
        return max([self.policy_version, *(one for one in stated if one <= self.policy_version + LEAP)])


@dataclass(frozen=True, slots=True)
class Progress:
    """A device's state in the roll-out of a policy, and the reason for a refusal."""

    state: State
    reason: str = ""


class Watcher:
    """Subscribes to one cohort's policy, settings, status and ledger with the rights of ops."""

    def __init__(self, endpoints: Sequence[Endpoint], cohort: str) -> None:
        self.topics = Topics(cohort)
        self.received = Received()
        self._arrival = threading.Condition()
        self._last_arrival = time.monotonic()
        kinds: list[Literal["policy", "noise", "status", "ledger"]] = ["policy", "noise", "status", "ledger"]
        self._connection = Connection(
            endpoints=endpoints,
            client_id=f"ops-{cohort}-{time.monotonic_ns():x}",
            subscriptions=[self.topics.all(kind) for kind in kinds],
            on_message=self._receive,
            keep_session=False,
            log=logger("error"),
        )

    def open(self, timeout: float = 10.0) -> None:
        """Connect and wait until the retained messages have arrived; raise Problem when the broker is unreachable."""
        self._connection.start()
        if not self._connection.wait_connected(timeout):
            raise Problem(f"--broker: {self._connection.last_error or 'no answer'}")
        self._last_arrival = time.monotonic()
        while (quiet := time.monotonic() - self._last_arrival) < SETTLED_S:
            time.sleep(SETTLED_S - quiet)

    def close(self) -> None:
        self._connection.stop()

    def publish(self, policy: Policy, payload: bytes, timeout: float) -> None:
        """Publish the policy, retained, and wait until the broker delivers it back; raise Problem on time-out.

        An acknowledgement would prove nothing: brokers acknowledge forbidden messages, too.
        """
        try:
            self._connection.publish(self.topics.policy, payload, retain=True)
        except Offline as error:
            raise Problem(f"--broker: the connection was lost before the policy was sent: {error}") from None
        with self._arrival:
            back = self._arrival.wait_for(lambda: self.received.policy == policy, timeout)
        if not back:
            raise Problem(
                f"--broker: the broker did not deliver the policy back within {timeout:g} s: check that this identity "
                f"may write {self.topics.policy}"
            )

    def wait_for_message(self, timeout: float) -> None:
        """Return when a message has arrived, or after `timeout` seconds."""
        with self._arrival:
            self._arrival.wait(timeout)

    def progress(self, policy: Policy) -> dict[str, Progress]:
        """Return the progress of every device that has ever published its status."""
        with self._arrival:
            settings = self.received.settings
            return {
                device: progress_of(device, one, policy, settings)
                for device, one in sorted(self.received.statuses.items())
            }

    def _receive(self, topic: str, payload: bytes, retained: bool) -> None:
        address = parse(topic)
        if address is None:
            return
        if not payload:
            if address.kind == "status" and address.device is not None:
                with self._arrival:
                    self.received.statuses.pop(address.device, None)
            return
        with self._arrival:
            if retained:  # statuses of a large site never pause
                self._last_arrival = time.monotonic()
            try:
                match address.kind:
                    case "policy":
                        # Also of one that is refused below because it breaks a rule that came after it.
                        stated = _stated_version(payload)
                        self.received.policy_version = max(stated, self.received.policy_version)
                        signed = decode(Signed[Policy], payload)
                        self.received.policy, self.received.policy_key = signed.message, signed.key
                    case "noise" if address.stream and address.device is None:
                        setting = decode(Signed[NoiseSetting], payload).message
                        self.received.settings[address.stream] = setting
                        self.received.policy_version = max(setting.policy, self.received.policy_version)
                    case "status" if address.device:
                        self.received.statuses[address.device] = decode(Status, payload)
                    case "ledger" if address.stream:
                        self.received.ledgers[address.stream] = decode(LedgerState, payload)
            except Rejected:
                return  # an invalid message: ignored
            self._arrival.notify_all()


def progress_of(
    device: str, status: Status, policy: Policy, settings: Mapping[str, NoiseSetting]
) -> Progress:
    """Return how far a device is, by its last status and the settings in force.

    One that is to go on with what it follows, while others apply the policy first, may refuse it all the same.
    """
    if status.refused is not None and status.refused.version == policy.version:
        return Progress("refused", str(status.refused.reason))
    if policy.first_devices and device not in policy.first_devices:
        return Progress("held back")
    if status.policy != policy.version:
        return Progress("offline" if status.online is False else "silent")
    for name, stream in status.streams.items():
        if name in policy.streams and stream.noise is None:
            if stream.refused is not None and _is_answer(stream.refused, policy, settings.get(name)):
                return Progress("refused", f"{name}: {stream.refused.reason}")
            return Progress("waiting for noise")
    return Progress("applied")


def _is_answer(refusal: Refusal, policy: Policy, setting: NoiseSetting | None) -> bool:
    """Whether a device refused a noise setting that was made for this policy, and not one made before it.

    A setting for another policy is a mismatch until the calibrator has made one for this policy, a moment later.
    """
    return refusal.reason != Reason.POLICY_MISMATCH and (setting is None or setting.policy == policy.version)


def settled(found: dict[str, Progress]) -> bool:
    """Whether every device is in a final state."""
    return all(one.state in FINAL for one in found.values())


def nobody_applied(policy: Policy, found: Mapping[str, Progress], received: Received) -> str | None:
    """What to do about a policy that was refused and that no device has applied, in words; None where that is not so.

    The calibrator issues noise for it once a device has applied it, or while it knows of no device; what was issued may
    be used by devices that have not reported.
    """
    refused = [device for device, one in found.items() if one.state == "refused"]
    followed = sorted({received.statuses[device].policy or 0 for device in refused})
    waiting = any(one.state in {"applied", "waiting for noise"} for one in found.values())
    if not refused or waiting or policy.version in followed:
        return None
    reasons = sorted({found[device].reason for device in refused})
    go_on = ", ".join(f"policy {one}" if one else "no policy" for one in followed)
    issued = any(one.policy == policy.version for one in received.settings.values())
    cost = (
        f"Noise for policy {policy.version} was issued, and stays possible: releases leave room for it"
        if issued
        else f"No noise was issued for policy {policy.version}: it costs nothing"
    )
    return (
        f"no device has applied policy {policy.version} ({', '.join(reasons)}): whoever refused it goes on with "
        f"{go_on}, the calibrator follows the new one. Push a corrected policy, or the former file again. {cost}"
    )


def _stated_version(payload: bytes) -> int:
    """Return the version that a signed message states, valid or not; 0 where it states none."""
    try:
        version = json.loads(payload)["message"]["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return 0
    return version if isinstance(version, int) and 0 < version < LAST_VERSION else 0
