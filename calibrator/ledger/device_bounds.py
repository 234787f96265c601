"""Pre-computed bounds for devices with device-specific settings, so that closing a window does not wait for them.

Calibrating device-specific settings writes the table, device by device (calibrator/settings/device_rounds.py); closing
a window and reporting the ledger read it. What is missing is computed, and written, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.ledger.device_exposure import DeviceExposure
from hushmq.calibrator.ledger.window_allowance import LARGEST_TILT, TILTED, allowed
from hushmq.calibrator.models.chain_model import MARGIN
from hushmq.calibrator.models.tilt_bounds import TiltBounds
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.window_method import Method


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much one device lets windows of one method spend, as a tilt on sanitized states.

    Up to `proved` it allows everything asked for; `limit` is the most it allows, once that was searched for.
    """

    proved: float = 0.0
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class PublicLoss:
    """The loss of one device at one tilt of its true states."""

    tilt: float
    loss: float


@dataclass(slots=True)
class _Row:
    """The bounds of one device, valid for its exposure."""

    exposure: DeviceExposure
    allowances: dict[Method, Allowance] = field(default_factory=dict)
    public: PublicLoss | None = None
    operator: float | None = None


class DeviceBounds:
    """The table of one stream under one policy and one Θ for each device.

    It is owned by the stream's accounts, which start a new one when Θ or the policy changes. A device's row is replaced
    when its exposure changes.
    """

    def __init__(self, policy: StreamPolicy, device_tilt: int) -> None:
        self._policy = policy
        self._device_tilt = device_tilt
        self._tilts = TiltBounds()
        self._rows: dict[str, _Row] = {}

    def precompute(
        self, exposure: DeviceExposure, *, tilt: float, allowances: Mapping[Method, float]
    ) -> None:
        """Fill the device's row: its losses at the present tilt, and whether it allows what the cohort does."""
        for method, upper in allowances.items():
            self.allowance(exposure, method, upper)
        self.public_loss(exposure, tilt)
        self.operator_loss(exposure)

    def allowance(self, exposure: DeviceExposure, method: Method, upper: float) -> float:
        """The largest tilt on sanitized states, up to `upper`, that keeps the public budget for the device.

        That `upper` keeps it takes one loss to prove; the largest such tilt is searched for only where that fails.
        """
        if upper <= 0:
            return 0.0
        row = self._row(exposure)
        known = row.allowances.get(method, Allowance())
        if upper <= known.proved:
            return upper
        if method in TILTED and self._keeps_budget(exposure, upper):
            row.allowances[method] = Allowance(upper, known.limit)
            return upper
        if known.limit is None:
            noises, tilt = exposure.noises, self._device_tilt
            limit = allowed(self._policy, method, exposure.theta, noises, LARGEST_TILT, tilt)
            known = row.allowances[method] = Allowance(known.proved, limit)
        return upper if known.limit is None else min(upper, known.limit)

    def keeps_public(self, theta: Theta, tilt: float) -> bool:
        """Whether this tilt of true states by the whole account, at every tick for ever, keeps its public budget."""
        policy = self._policy
        return self._tilts.keeps(theta, tilt, policy.epsilon.public, policy.adversary, stride=policy.stride)

    def public_loss(self, exposure: DeviceExposure, tilt: float) -> float:
        """Upper bound on the device's public loss if no tick's true state is tilted by more than `tilt`."""
        row = self._row(exposure)
        if row.public is None or row.public.tilt != tilt:
            row.public = PublicLoss(tilt, exposure.public_loss(tilt, self._policy))
        return row.public.loss

    def operator_loss(self, exposure: DeviceExposure) -> float:
        """Upper bound on the operator's loss of the device."""
        row = self._row(exposure)
        if row.operator is None:
            row.operator = exposure.operator_loss(self._policy, self._device_tilt)
        return row.operator

    def _keeps_budget(self, exposure: DeviceExposure, tilt: float) -> bool:
        """Whether a tilt on sanitized states keeps the budget, with the margins that a search would leave."""
        tau = max(noise.amplified(tilt) for noise in exposure.noises) + self._device_tilt / NANO
        policy = self._policy
        tau /= (1 - exposure.theta.tilt_margin) * policy.tilt_share
        return self._tilts.keeps(
            exposure.theta, tau, policy.epsilon.public - MARGIN, policy.adversary, stride=policy.stride
        )

    def _row(self, exposure: DeviceExposure) -> _Row:
        row = self._rows.get(exposure.device)
        if row is None or row.exposure != exposure:
            row = self._rows[exposure.device] = _Row(exposure)
        return row
