"""The site as the broker's messages describe it, kept up to date on the event loop's thread.

The console subscribes with an identity of its own, which may not read the noisy stream: nothing in here is a state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hushmq.broker.contract.messages import LedgerState, NoiseSetting, Release, Status, decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.signature import PublicKey, Signed, verify
from hushmq.broker.contract.topics import Address, parse
from hushmq.console.activity.activity_log import Happened, LogKind
from hushmq.console.state.changes import Changes
from hushmq.console.state.device_record import DeviceRecord, unsaid
from hushmq.console.state.public_site import PublicSite

Record = Callable[[LogKind, str, str], None]
"""Takes what an event is about (policy, setting, device, ledger), its subject, and a sentence."""


@dataclass(slots=True)
class LiveSite:
    """All that an operator may know of a site from its topics; `public` is what everybody may."""

    cohort: str
    ops_keys: Sequence[PublicKey]
    calibrator_keys: Sequence[PublicKey]
    changes: Changes
    record: Record
    history: Callable[[str], Sequence[Happened]] = lambda _: ()
    """What the log says of a device, the newest first."""
    clock: Callable[[], float] = time.time
    public: PublicSite = field(init=False)
    devices: dict[str, DeviceRecord] = field(default_factory=dict)
    own_settings: dict[tuple[str, str], NoiseSetting] = field(default_factory=dict)
    """By stream and device, device-specific settings."""
    ledgers: dict[str, LedgerState] = field(default_factory=dict)
    connected: bool = False
    error: str | None = None
    """Why there is no connection."""
    since: float = 0.0
    """When the connection came or went."""
    rejected: int = 0
    """Messages that were not of the contract, or not signed by whom we trust."""

    def __post_init__(self) -> None:
        self.public = PublicSite(self.cohort)
        self.since = self.clock()

    def set_connected(self, connected: bool, error: str | None = None) -> None:
        """Take over that the connection came or went."""
        if (connected, error) != (self.connected, self.error):
            if connected != self.connected:
                self.since = self.clock()
            self.connected, self.error = connected, error
            self.changes.note("broker")

    def receive(self, topic: str, payload: bytes, retained: bool) -> None:
        """Take over one message."""
        address = parse(topic)
        if address is None or address.cohort != self.cohort:
            return
        if not payload:
            if address.kind == "status" and address.device in self.devices:
                self._forget(address.device)
            return
        try:
            self._take(address, payload, retained=retained)
        except Rejected:
            self.rejected += 1

    def _take(self, address: Address, payload: bytes, *, retained: bool) -> None:
        match address.kind:
            case "policy":
                self._policy(payload)
            case "noise" if address.stream:
                self._setting(address.stream, address.device, payload)
            case "status" if address.device:
                self._status(address.device, decode(Status, payload), retained=retained)
            case "release" if address.stream and address.window and address.scope:
                key = (address.stream, address.window, address.scope)
                self.public.releases[key] = decode(Release, payload)
                self.changes.note("release")
            case "ledger" if address.stream:
                self._ledger(address.stream, decode(LedgerState, payload))

    def _policy(self, payload: bytes) -> None:
        message = verify(Policy, payload, self.ops_keys)
        before = self.public.policy
        if before is not None and message.version <= before.version:
            return
        self.public.policy = message
        self.public.policy_key = key = decode(Signed[Policy], payload).key
        self.record("key", "signs policies", f"policies are signed by the key {key}")
        self.record(
            "policy", str(message.version), f"policy {message.version}, signed by {self.public.policy_key}"
        )
        self.changes.note("policy")
        for name in self.devices:
            self.changes.note(f"device:{name}")

    def _setting(self, stream: str, device: str | None, payload: bytes) -> None:
        if self.calibrator_keys:
            message = verify(NoiseSetting, payload, self.calibrator_keys)
        else:
            message = decode(Signed[NoiseSetting], payload).message
        known = self.own_settings.get((stream, device)) if device else self.public.settings.get(stream)
        if known is not None and known.version >= message.version:
            return
        key = decode(Signed[NoiseSetting], payload).key
        self.record("key", "signs settings", f"settings are signed by the key {key}")
        where = stream if device is None else f"{stream} of {device}"
        words = f"noise {message.version} of {where}: {message.noise.noise.in_words()}"
        self.record("setting", where, words)
        if device is None:
            self.public.settings[stream] = message
            self.changes.note("setting")
        else:
            self.own_settings[stream, device] = message
            self.changes.note(f"device:{device}")

    def _status(self, device: str, status: Status, *, retained: bool) -> None:
        first = device not in self.devices
        known = self.devices.setdefault(device, DeviceRecord(device))
        changed = known.update(status, at=None if retained else self.clock())
        before = self.history(device) if first else []
        for words in unsaid((words for _, words in changed), before):
            self.record("device", device, words)
        known.sample(self.clock(), self._signal(known))
        self.changes.note(f"device:{device}")

    def _signal(self, known: DeviceRecord) -> float | None:
        """How much of the state comes through the noise of the device, in the stream where it is least."""
        settings = (self.setting_of(name, known.name, one.noise) for name, one in known.streams.items())
        return min((one.noise.noise.signal for one in settings if one is not None), default=None)

    def _forget(self, device: str) -> None:
        """Its status was cleared: ops have forgotten it."""
        del self.devices[device]
        self.own_settings = {key: one for key, one in self.own_settings.items() if key[1] != device}
        self.record("device", device, "forgotten")
        self.changes.note(f"device:{device}")

    def _ledger(self, stream: str, state: LedgerState) -> None:
        before = self.ledgers.get(stream)
        self.ledgers[stream] = state
        if before != state:
            if before is None or before.head != state.head:
                self.record("ledger", stream, f"{state.entries} entries, head {(state.head or 'none')[:12]}")
            self.changes.note("ledger")

    def version_for(self, stream: str, device: str) -> int | None:
        """The noise version that a device should follow: the newer of the cohort's and of its own."""
        cohort, own = self.public.settings.get(stream), self.own_settings.get((stream, device))
        found = [one.version for one in (cohort, own) if one is not None]
        return max(found, default=None)

    def setting_of(self, stream: str, device: str, version: int | None) -> NoiseSetting | None:
        """The setting that a device reports to follow, if it is one that is in force."""
        for one in (self.own_settings.get((stream, device)), self.public.settings.get(stream)):
            if one is not None and one.version == version:
                return one
        return None
