"""Verify a pushed policy or noise setting on the device, before it is applied.

A policy is applied if and only if

- an ops key has signed it, it is for this cohort, and its version is above the applied one;
- every audience's ε is within the device's limit, which holds for all streams of one account together;
- no stream in use changes its period or its stride (ticks of another period are other instants), and none its
  number of states (an account belongs to one chain model), also where a policy in between did not name it;
- it names this device among those that apply it first, or names none. Else it is held back: checked, not applied.

A noise setting is applied if and only if

- a calibrator key has signed it, it is for this stream and device, and its version is above the applied one;
- it was made for the applied policy, has as many states, and its Θ contains the floor of every stream that shares the
  account;
- every probability of its noise is at least the device's floor;
- the loss of the stream and the device windows together, recomputed for its Θ and with the stream's share of its
  account, is within the account's ε for operators (broker/contract/operator_loss.py, broker/contract/account_share.py).

Otherwise nothing changes, and `status` reports the reason.

Settings are stored as they were received, and verified again in full when they are read. One that has been received
replaces the one before it on disk when the streams follow it: an agent that ends in between fills the ticks of before
with the setting that was in force then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from hushmq.agent.agent_config import TrustSection
from hushmq.agent.storage.outbox_mark import move_durably, replace_durably
from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.messages import NoiseSetting, Refusal, decode
from hushmq.broker.contract.operator_loss import operator_loss, windows_loss
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.signature import PublicKey, Signed, verify
from hushmq.broker.contract.theta_message import ThetaMessage
from hushmq.broker.contract.topics import Address


@dataclass(frozen=True, slots=True)
class Trust:
    """The limits in the device's configuration, and the public keys it trusts."""

    ops: tuple[PublicKey, ...]
    calibrator: tuple[PublicKey, ...]
    epsilon_max: float
    rho_min: float

    @classmethod
    def of(cls, section: TrustSection) -> Trust:
        return cls(
            ops=tuple(map(PublicKey.parse, section.ops_keys)),
            calibrator=tuple(map(PublicKey.parse, section.calibrator_keys)),
            epsilon_max=section.epsilon_max,
            rho_min=section.rho_min,
        )


class Kept(StrEnum):
    """Settings on disk, by the ending of their files."""

    FOLLOWED = ".json"
    RECEIVED = ".received"
    """Verified, and not yet followed by the streams when the agent ended."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """What stored settings have changed, and those that are refused now."""

    changed: bool
    refused: list[Rejected]


@contextmanager
def computable() -> Iterator[None]:
    """Raise Rejected where a loss cannot be computed: a retained message must not end the agent at every start."""
    try:
        yield
    except ArithmeticError as error:
        raise Rejected(Reason.NOT_PROVEN, f"its loss cannot be computed: {type(error).__name__}") from None


def check_policy(
    policy: Policy, trust: Trust, *, cohort: str, device: str, periods: Mapping[str, int]
) -> dict[str, StreamPolicy]:
    """Raise Rejected unless this device may apply the policy; `periods` are those of the streams in use.

    Returns its streams as the accounts of this device price them.
    """
    if policy.cohort != cohort:
        raise Rejected(Reason.WRONG_ADDRESS, "the policy is for another cohort")
    priced = {name: one.policy for name, one in priced_streams(policy, device).items()}
    for name, stream in policy.streams.items():
        for audience, epsilon in (("operator", stream.epsilon.operator), ("public", stream.epsilon.public)):
            if epsilon > trust.epsilon_max:
                raise Rejected(
                    Reason.EPSILON_ABOVE_CAP,
                    f"{name}: ε for {audience} is {epsilon:g}, this device allows {trust.epsilon_max:g}",
                )
        _check_windows(name, priced[name], priced[name].theta.start)
        if periods.get(name, stream.stride_ms) != stream.stride_ms:
            what = "ticks" if stream.stride == 1 else f"strides of {stream.stride} ticks"
            raise Rejected(
                Reason.PERIOD_CHANGED,
                f"{name}: one state every {periods[name]} ms is in use and never changes, {what} would be "
                f"{stream.stride_ms} ms: give the stream a new name",
            )
    return priced


def _check_windows(name: str, policy: StreamPolicy, theta: ThetaMessage) -> None:
    """Raise Rejected unless the windows that the device releases stay within each audience's ε.

    They tilt every tick alike, so their loss is that of an endless constant tilt (docs/theory.md, Theorem 2). Operators
    also read the stream; `check_noise` adds its tilt.
    """
    found = windows_loss(theta, policy.device_window_tilt, policy.adversary, policy.tilt_share)
    for audience, epsilon in (("public", policy.epsilon.public), ("operator", policy.epsilon.operator)):
        if not found <= epsilon:
            raise Rejected(
                Reason.LOSS_ABOVE_EPSILON,
                f"{name}: device windows lose {found:.6g} to the {audience}, the policy allows {epsilon:g}",
            )


def check_noise(setting: NoiseSetting, policy: StreamPolicy, trust: Trust) -> None:
    """Raise Rejected unless the loss under the setting's Θ is within ε and its noise at or above the device's floor.

    The policy is that of the stream as its account prices it (`check_policy`).
    """
    if setting.theta.k != len(policy.states):
        raise Rejected(
            Reason.POLICY_MISMATCH,
            f"the setting is for {setting.theta.k} states, the policy names {len(policy.states)}",
        )
    if not setting.theta.contains(policy.theta.floor):
        raise Rejected(Reason.THETA_NARROWER_THAN_FLOOR, "Θ does not contain the policy's floor")
    try:
        least = setting.noise.least_probability()
    except ValueError as error:
        raise Rejected(Reason.MALFORMED, str(error)) from None
    if least < trust.rho_min:
        raise Rejected(Reason.NOISE_BELOW_FLOOR, f"a flip probability is below {trust.rho_min:g}")
    _check_windows(setting.stream, policy, setting.theta)
    found = operator_loss(
        setting.theta,
        setting.noise,
        policy.device_window_tilt,
        policy.adversary,
        policy.tilt_share,
        policy.stride,
    )
    if not found <= policy.epsilon.operator:
        raise Rejected(
            Reason.LOSS_ABOVE_EPSILON,
            f"the loss is {found:.6g}, the policy allows {policy.epsilon.operator:g}",
        )


class Settings:
    """The policy and the noise settings in force. Used from one thread."""

    def __init__(
        self, folder: Path, trust: Trust, *, cohort: str, device: str, streams: Iterable[str]
    ) -> None:
        self._folder = folder / "settings"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._trust = trust
        self._cohort, self._device = cohort, device
        self._named = frozenset(streams)
        self.policy: Policy | None = None
        self.streams: Mapping[str, StreamPolicy] = {}
        """The streams of the policy, as the accounts of this device price them."""
        self.policy_refusal: Refusal | None = None
        self.noise: dict[str, NoiseSetting] = {}
        self.noise_refusals: dict[str, Refusal] = {}
        self._held_back: int | None = None
        """The version of a policy that others apply first."""
        self.save_error: str | None = None
        """Why the setting applied last could not be stored; None if it was."""
        self._early: dict[Address, bytes] = {}

    def load(self, periods: Mapping[str, int], kept: Kept = Kept.FOLLOWED) -> LoadedSettings:
        """Apply stored settings; some may be refused, since keys or limits may have changed since."""
        changed, refused = False, []
        stored: list[tuple[Path, Callable[[bytes], bool]]]
        stored = [(self._policy_path, lambda payload: self._apply_policy(payload, periods))]
        stored += [
            (self._noise_path(stream), partial(self._apply_noise, stream)) for stream in sorted(self._named)
        ]
        for path, apply in stored:
            found = path.with_suffix(kept)
            if found.exists():
                try:
                    changed |= apply(found.read_bytes())
                except Rejected as rejected:
                    refused.append(rejected)
                    if kept is Kept.RECEIVED:
                        found.unlink()
        return LoadedSettings(changed, refused)

    def followed(self) -> None:
        """The streams follow what was received: from now on it is what an absence is filled with."""
        for path in (self._policy_path, *map(self._noise_path, sorted(self._named))):
            received = path.with_suffix(Kept.RECEIVED)
            if received.exists():
                try:
                    move_durably(received, path)
                except OSError as error:
                    self.save_error = error.strerror

    def offer(self, address: Address, payload: bytes, periods: Mapping[str, int]) -> bool:
        """Apply and store a pushed setting. Returns whether something changed; raises Rejected if it is refused."""
        if address.kind == "policy":
            return self._receive_policy(payload, periods)
        if address.stream not in self._named or address.device not in {None, self._device}:
            return False
        return self._receive_noise(address, payload)

    def _receive_policy(self, payload: bytes, periods: Mapping[str, int]) -> bool:
        try:
            changed = self._apply_policy(payload, periods)
        except Rejected as rejected:
            self.policy_refusal = Refusal(
                version=_stated_version(Signed[Policy], payload), reason=rejected.reason
            )
            raise
        self.policy_refusal = None
        if self._held_back is not None:
            mismatch = Reason.POLICY_MISMATCH
            self.noise_refusals = {k: one for k, one in self.noise_refusals.items() if one.reason != mismatch}
        if changed:
            self._store(self._policy_path, payload)
            # Noise settings for this policy may have arrived before it.
            early, self._early = self._early, {}
            for address, received in early.items():
                with suppress(Rejected):
                    self._receive_noise(address, received)
        return changed

    def _receive_noise(self, address: Address, payload: bytes) -> bool:
        stream = address.stream or ""
        try:
            changed = self._apply_noise(stream, payload, address)
        except Rejected as rejected:
            if rejected.reason == Reason.POLICY_MISMATCH:
                self._early[address] = payload
                if decode(Signed[NoiseSetting], payload).message.policy == self._held_back:
                    return False
            version = _stated_version(Signed[NoiseSetting], payload)
            self.noise_refusals[stream] = Refusal(version=version, reason=rejected.reason)
            raise
        if changed:
            self.noise_refusals.pop(stream, None)
            self._store(self._noise_path(stream), payload)
        return changed

    def _store(self, path: Path, payload: bytes) -> None:
        """Store a setting. One that cannot be stored stays applied, because it may demand more noise."""
        try:
            replace_durably(path.with_suffix(Kept.RECEIVED), payload)
            self.save_error = None
        except OSError as error:
            self.save_error = error.strerror

    def _apply_policy(self, payload: bytes, periods: Mapping[str, int]) -> bool:
        policy = verify(Policy, payload, self._trust.ops)
        if policy == self.policy:
            return False
        if self.policy is not None and policy.version <= self.policy.version:
            raise Rejected(Reason.STALE_VERSION, f"version {self.policy.version} is in force")
        with computable():
            priced = check_policy(
                policy, self._trust, cohort=self._cohort, device=self._device, periods=periods
            )
        for name, stream in policy.streams.items():
            used = self._states_of(name)
            if used not in {None, len(stream.states)}:
                raise Rejected(
                    Reason.STATES_CHANGED,
                    f"{name}: {used} states are in use, and their number never changes: give it a new name",
                )
        if policy.first_devices and self._device not in policy.first_devices:
            self._held_back = policy.version
            return False
        self.policy, self.streams, self._held_back = policy, priced, None
        self.noise, self.noise_refusals = {}, {}
        return True

    def _states_of(self, stream: str) -> int | None:
        """How many states a stream has, or had under the last policy that named it; None if none has."""
        if self.policy is not None and stream in self.policy.streams:
            return len(self.policy.streams[stream].states)
        # The setting of a stream stays on disk when a policy no longer names it.
        for path in (self._noise_path(stream).with_suffix(kept) for kept in Kept):
            if path.exists():
                with suppress(Rejected):
                    return decode(Signed[NoiseSetting], path.read_bytes()).message.theta.k
        return None

    def _apply_noise(self, stream: str, payload: bytes, address: Address | None = None) -> bool:
        setting = verify(NoiseSetting, payload, self._trust.calibrator)
        if (
            setting.cohort != self._cohort
            or setting.stream != stream
            or setting.device not in {None, self._device}
            or (address is not None and setting.device != address.device)
        ):
            raise Rejected(Reason.WRONG_ADDRESS, "the setting is for another stream or device")
        applied = self.noise.get(stream)
        if setting == applied:
            return False
        if applied is not None and setting.version <= applied.version:
            if setting.device != applied.device:
                return False  # of the cohort's setting and a device-specific one, the newer applies
            raise Rejected(Reason.STALE_VERSION, f"version {applied.version} is in force")
        if self.policy is None or setting.policy != self.policy.version or stream not in self.policy.streams:
            raise Rejected(
                Reason.POLICY_MISMATCH, "the setting was made for another policy than the one in force"
            )
        with computable():
            check_noise(setting, self.streams[stream], self._trust)
        self.noise[stream] = setting
        return True

    @property
    def _policy_path(self) -> Path:
        return self._folder / "policy.json"

    def _noise_path(self, stream: str) -> Path:
        return self._folder / f"noise-{stream}.json"


def _stated_version(model: type[Signed[Policy]] | type[Signed[NoiseSetting]], payload: bytes) -> int | None:
    """The version that a refused message states; None if it cannot be decoded."""
    try:
        return decode(model, payload).message.version
    except Rejected:
        return None
