"""The two errors of the contract: a problem that a person can correct, and the rejection of a message."""

from __future__ import annotations

from enum import StrEnum


class Problem(Exception):
    """Raised when a person can correct the cause: shown as one line, without traceback, exit code 2."""


class Reason(StrEnum):
    """Why a message was refused. The codes are part of the wire contract: never renamed, never reused."""

    TOO_LARGE = "too-large"
    MALFORMED = "malformed"
    UNKNOWN_VERSION = "unknown-version"
    WRONG_ADDRESS = "wrong-address"
    UNKNOWN_KEY = "unknown-key"
    BAD_SIGNATURE = "bad-signature"
    STALE_VERSION = "stale-version"
    POLICY_MISMATCH = "policy-mismatch"
    PERIOD_CHANGED = "period-changed"
    STATES_CHANGED = "states-changed"
    EPSILON_ABOVE_CAP = "epsilon-above-cap"
    THETA_NARROWER_THAN_FLOOR = "theta-narrower-than-floor"
    NOISE_BELOW_FLOOR = "noise-below-floor"
    NOT_PROVEN = "not-proven"
    LOSS_ABOVE_EPSILON = "loss-above-epsilon"
    FUTURE_TICK = "future-tick"
    IMPOSSIBLE_TICK = "impossible-tick"
    TAMPERED = "tampered"
    TOO_FAST = "too-fast"
    QUARANTINED = "quarantined"


class Rejected(Exception):
    """Raised when a message is refused; no state has changed. Carries the reason code and one sentence."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
