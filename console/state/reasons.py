"""Reason codes of the contract in words: what happened, and what to do about it."""

from __future__ import annotations

from hushmq.broker.contract.problem import Reason

WORDS: dict[Reason, tuple[str, str]] = {
    Reason.TOO_LARGE: ("the message is too large", "Use a policy with fewer states or shorter bounds of Θ."),
    Reason.MALFORMED: (
        "the message has a field that breaks a rule",
        "Push it again with `hushmq push`, which checks every field; update the device if it is older.",
    ),
    Reason.UNKNOWN_VERSION: (
        "the message has a newer form than the device knows",
        "Update hushmq on the device.",
    ),
    Reason.WRONG_ADDRESS: (
        "the message is for another cohort, stream or device",
        "Check `cohort` in the device's settings, and who writes to its topics.",
    ),
    Reason.UNKNOWN_KEY: (
        "the key that signed it is not trusted there",
        "List the key in `trust.ops_keys` or `trust.calibrator_keys` of the device, or sign with one that is.",
    ),
    Reason.BAD_SIGNATURE: (
        "the signature does not fit",
        "Somebody changed the message on its way, or another key has the same id: find out who writes to the topic.",
    ),
    Reason.STALE_VERSION: (
        "the device has followed a newer version",
        "Push a version above the one the device has; a broker restored from a backup has old ones.",
    ),
    Reason.POLICY_MISMATCH: (
        "the setting belongs to another policy",
        "Wait: the calibrator makes a setting for the new policy. If it lasts, see whether the calibrator runs.",
    ),
    Reason.PERIOD_CHANGED: ("the period of a stream changed", "Give the stream a new name."),
    Reason.STATES_CHANGED: ("the number of states changed", "Give the stream a new name."),
    Reason.EPSILON_ABOVE_CAP: (
        "ε is above the device's own limit",
        "Push a policy with a lower ε, or raise `trust.epsilon_max` on the device if its owner agrees.",
    ),
    Reason.THETA_NARROWER_THAN_FLOOR: (
        "Θ is narrower than the policy's floor",
        "The calibrator must not do this: verify the ledger, and see the calibrator's log.",
    ),
    Reason.NOISE_BELOW_FLOOR: (
        "the noise is below the device's own minimum",
        "Push a policy with a lower ε, or lower `trust.rho_min` on the device if its owner agrees.",
    ),
    Reason.NOT_PROVEN: (
        "the device cannot prove that the noise keeps ε",
        "See the calibrator's log; a wider Θ or fewer states may help.",
    ),
    Reason.LOSS_ABOVE_EPSILON: (
        "the noise loses more than ε",
        "The calibrator must not do this: verify the ledger, and see the calibrator's log.",
    ),
    Reason.FUTURE_TICK: ("its clock is ahead", "Set the device's clock."),
    Reason.IMPOSSIBLE_TICK: ("it sent ticks that cannot be", "Check the device's clock and outbox."),
    Reason.TAMPERED: (
        "it sent one tick with two different states",
        "Find out whether two devices share its name, or its outbox was restored from a copy.",
    ),
    Reason.TOO_FAST: ("it sends faster than any device should", "Check what runs under its name."),
    Reason.QUARANTINED: ("it is in quarantine", "Wait until the quarantine ends, or mend what caused it."),
}


def reason_in_words(reason: str) -> tuple[str, str]:
    """What a reason code means, and what to do; a code that is not known stands for itself."""
    try:
        return WORDS[Reason(reason)]
    except ValueError:
        return reason, "See docs/log-events.md."
