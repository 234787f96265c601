"""A device's own watch over its states (agent/watch), driven as its stream drives it: beat after beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.agent.watch.stream_watch import StreamWatch
from hushmq.broker.contract.policy_message import Assumption, Audiences, StreamPolicy, Threshold
from hushmq.broker.contract.theta_message import theta_message
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

Bits = NDArray[np.int64]

BEAT = 20
"""The ticks of one beat."""


@dataclass(frozen=True, slots=True)
class Noticed:
    """After how many ticks the device warned, and after how many it published no true state any more; None if never."""

    warned: int | None
    replaced: int | None


def watched(theta: BinaryTheta, states: Bits) -> Noticed:
    """What the watch makes of states under Θ and a policy that publishes the stand-in after an alarm."""
    watch = StreamWatch(
        StreamPolicy(
            states=("low", "high"),
            period_ms=500,
            discretiser=Threshold(at=0.5),
            theta=Assumption(start=theta_message(theta), floor=theta_message(theta)),
            epsilon=Audiences(operator=4.0, public=4.0),
            windows={},
            outside_theta="stand-in",
        )
    )
    watch.follow(theta_message(theta))
    warned = None
    for first in range(0, len(states), BEAT):
        beat = states[first : first + BEAT].tolist()
        watch.compare(first, beat)
        if watch.warned and warned is None:
            warned = first + len(beat)
        # The beat of the alarm is already replaced.
        if watch.substitutes(len(beat)) is not None:
            return Noticed(warned, first)
    return Noticed(warned, None)
