"""Releases as the calibrator stores them."""

from __future__ import annotations

from collections.abc import Sequence

from hushmq.broker.contract.messages import Release, encode
from hushmq.broker.contract.theta_message import theta_message
from hushmq.console.store.release_groups import ReleaseGroup, grouped_releases
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

STATES = ("away", "<home>")


def payload(number: int, share: float, *, smoothed: bool = True, states: tuple[str, str] = STATES) -> bytes:
    """The release of a minute, with this share of the second state."""
    around = ((0.2, 0.8), (share - 0.05, share + 0.05))
    return encode(
        Release(
            stream="motion",
            window="minute",
            scope="cohort",
            first=60 * number,
            last=60 * number + 59,
            devices=3,
            ticks=180,
            states=states,
            counts=(90, 90),
            frequencies=(1 - share, share),
            standard_errors=(0.02, 0.02),
            intervals=around,
            scale=12.5,
            tilt=80_000_000,
            loss=0.5,
            budget=1.0,
            adversary="prior",
            theta=theta_message(BinaryTheta(0.1, 0.4, 0.1, 0.4)),
            entry=number + 1,
            smoothed=(1 - share, share) if smoothed else None,
            smoothed_intervals=around if smoothed else None,
        )
    )


def groups(payloads: Sequence[bytes]) -> Sequence[ReleaseGroup]:
    found = grouped_releases(payloads, 1)
    assert found is not None
    return found.groups
