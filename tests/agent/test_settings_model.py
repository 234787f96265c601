"""The settings of a device against a model of a few lines: offers in any order, restarts at any moment.

The model knows versions and nothing else. After every step the device has what the model has: a policy whose version
never falls, noise made for it, kept through a restart; whatever was refused has changed nothing.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from hushmq.agent.accept_settings import Kept, Settings, Trust
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, binary_noise_of
from hushmq.broker.contract.policy_message import Audiences
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.topics import Address
from tests.agent.peer import CALIBRATOR, DEVICE, OPS, noise, policy, sign

POLICY = Address("test", "policy")
SCOPES = {
    None: Address("test", "noise", stream="motion"),
    DEVICE: Address("test", "noise", stream="motion", device=DEVICE),
}
STRANGER = PrivateKey(b"s" * 32)
VERSIONS = st.integers(1, 5)


class DeviceSettings(RuleBasedStateMachine):
    """One device, and what it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="hushmq-settings-"))
        self.here = self._opened()
        self.policy: int | None = None
        self.noise: tuple[int, str | None] | None = None
        """Version and device of the noise in force."""
        self.early: dict[str | None, tuple[int, int, bool]] = {}
        """What came before its policy: by device, its version, its policy, and whether it is too weak."""

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def _opened(self) -> Settings:
        trust = Trust((OPS.public,), (CALIBRATOR.public,), epsilon_max=4.0, rho_min=0.001)
        return Settings(self.folder, trust, cohort="test", device=DEVICE, streams=["motion"])

    def _offer(self, address: Address, payload: bytes) -> Reason | bool:
        try:
            return self.here.offer(address, payload, {})
        except Rejected as rejected:
            return rejected.reason

    @rule(version=VERSIONS, kind=st.sampled_from(["good", "good", "stranger", "calibrator", "too much"]))
    def policy_arrives(self, version: int, kind: str) -> None:
        """Signed by ops or by somebody else, within the device's limit or above."""
        message = (
            policy(version, epsilon=Audiences(operator=4.1, public=1.0))
            if kind == "too much"
            else policy(version)
        )
        key = {"stranger": STRANGER, "calibrator": CALIBRATOR}.get(kind, OPS)
        found = self._offer(POLICY, sign(message, key))
        if kind in {"stranger", "calibrator"}:
            assert found is Reason.UNKNOWN_KEY
        elif version == self.policy and kind == "good":
            assert found is False
        elif self.policy is not None and version <= self.policy:
            assert found is Reason.STALE_VERSION
        elif kind == "too much":
            assert found is Reason.EPSILON_ABOVE_CAP
        else:
            assert found is True
            self.policy, self.noise = version, None
            early, self.early = self.early, {}
            for device, (number, its_policy, weak) in early.items():
                self._expected(number, its_policy, device, weak=weak)

    @rule(version=VERSIONS, its_policy=VERSIONS, device=st.sampled_from([None, DEVICE]), weak=st.booleans())
    def noise_arrives(self, version: int, its_policy: int, device: str | None, weak: bool) -> None:
        """For any policy, for the cohort or this device, strong enough or 1% too weak."""
        made = noise(version, policy=its_policy, device=device)
        if weak:
            flips = binary_noise_of(made.noise)
            less = BinaryNoiseMessage(rho0=flips.rho0 * 0.99, rho1=flips.rho1 * 0.99)
            made = made.model_copy(update={"noise": less})
        found = self._offer(SCOPES[device], sign(made))
        assert found is self._expected(version, its_policy, device, weak=weak)

    def _expected(self, version: int, its_policy: int, device: str | None, *, weak: bool) -> Reason | bool:
        if (
            self.noise is not None
            and not weak
            and (version, device) == self.noise
            and its_policy == self.policy
        ):
            return False
        if self.noise is not None and version <= self.noise[0]:
            return Reason.STALE_VERSION if device == self.noise[1] else False
        if self.policy != its_policy:
            self.early[device] = (version, its_policy, weak)
            return Reason.POLICY_MISMATCH
        if weak:
            return Reason.LOSS_ABOVE_EPSILON
        self.noise = version, device
        return True

    @rule()
    def streams_follow(self) -> None:
        """A beat later what was received is what is followed."""
        self.here.followed()

    @rule()
    def restart(self) -> None:
        """The process ends at any moment and starts again: nothing that was in force is lost."""
        self.here = self._opened()
        for kept in (Kept.FOLLOWED, Kept.RECEIVED):
            self.here.load({}, kept)
        self.early = {}

    @invariant()
    def the_device_has_what_the_model_has(self) -> None:
        applied = self.here.noise.get("motion")
        assert (self.here.policy.version if self.here.policy else None) == self.policy
        assert (None if applied is None else (applied.version, applied.device)) == self.noise
        if applied is not None:
            assert self.here.policy is not None
            assert applied.policy == self.here.policy.version


def test_settings_follow_their_model() -> None:
    """Over hundreds of steps in any order."""
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        DeviceSettings,
        settings=hypothesis_settings(
            max_examples=30, stateful_step_count=25, deadline=None, derandomize=True
        ),
    )
