"""Watch whether the states of one stream behave like the Θ they are promised under, and act as the policy says.

The states are compared in memory (docs/theory-world.md, Theorem 24), and a restart or another Θ begins anew. Nothing
but whether the evidence has passed a threshold leaves this module: no state, no count, no cell. What the action itself
tells those who read the stream is bounded by Theorem 25.
"""

from __future__ import annotations

from collections.abc import Sequence

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.theta_message import ThetaMessage
from hushmq.pufferfish.inference.theta_test import ThetaTest

WARN = 1e-3
"""The probability that a stream within Θ is warned about, locally, for each start and each Θ."""
ALARM = 1e-6
"""The probability that a stream within Θ raises the alarm, on which the policy's action follows, likewise."""
COARSE_MS = 3_600_000
"""A stream stops at a multiple of this time: when exactly the alarm was raised is not shown."""


class StreamWatch:
    """The watch over one stream. If its alarm was raised in an earlier run, `stop_from` is the tick that it gave."""

    def __init__(self, policy: StreamPolicy, *, stop_from: int | None = None) -> None:
        self.policy = policy
        self.warned = stop_from is not None
        """Whether the states do not look like Θ: the evidence has passed the lower threshold."""
        self.outside = stop_from is not None
        """Whether the alarm was raised: the evidence has passed the higher threshold."""
        self._theta: ThetaMessage | None = None
        self._test: ThetaTest | None = None
        self._next: int | None = None
        self.stop_from = stop_from or 0
        """The first tick of which nothing is published after the alarm, if the policy asks for a stop."""

    @property
    def ticks(self) -> int:
        """The number of ticks compared with the Θ in force."""
        return self._test.ticks if self._test else 0

    def follow(self, theta: ThetaMessage) -> None:
        """Compare with this Θ from now on; another one than before begins anew, but a raised alarm stays raised."""
        if theta != self._theta:
            self._theta, self._test = theta, ThetaTest(*theta.chains.transition_bounds)
            self.warned = self.outside

    def compare(self, first: int, states: Sequence[int | None]) -> None:
        """Compare the states of the ticks `first`, `first` + 1, … with Θ; None where a tick has no value of its own."""
        test = self._test
        if test is None or self.outside or not states:
            return
        if self._next is not None and first != self._next:
            test.add([None])
        self._next = first + len(states)
        evidence = test.add(states)
        self.warned |= evidence >= 1 / WARN
        if evidence >= 1 / ALARM:
            self.outside = True
            coarse = max(1, COARSE_MS // self.policy.period_ms)
            self.stop_from = -(-self._next // coarse) * coarse

    def end(self, end: int) -> int:
        """The end of what is published of the ticks before `end`."""
        if not self.outside or self.policy.outside_theta != "stop":
            return end
        return min(end, self.stop_from)

    def substitutes(self, count: int) -> list[int] | None:
        """What to perturb in place of `count` states: stand-ins after an alarm, unless the policy only warns."""
        if not self.outside or self.policy.outside_theta == "warn":
            return None
        return [self.policy.stand_in_state] * count

    @property
    def trouble(self) -> str | None:
        """What is wrong and what to do, for people on the device; None while the states behave like Θ."""
        if not self.warned:
            return None
        one_in, follows = 1 / WARN, "they are published as before"
        if self.outside:
            one_in = 1 / ALARM
            if self.policy.outside_theta == "stop":
                follows = "the stream stops at the end of the hour"
            elif self.policy.outside_theta == "stand-in":
                follows = "the stand-in is published instead of them"
        return (
            f"states do not behave like Θ (if they did, 1 of {one_in:,.0f} devices would show this): {follows}; push a "
            "policy with a wider Θ, or with a period at which the sensor has new readings"
        )
