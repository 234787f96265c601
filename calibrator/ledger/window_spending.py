"""How much of the public budget one window may spend, so that the tumbling sequence keeps it for ever."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.ledger.window_allowance import LARGEST_TILT, allowed
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.protocols import Noise, Theta


@dataclass(frozen=True, slots=True)
class Spending:
    """What closing one window spends, in nano-nats on the sanitized states."""

    release: int
    learning: int

    @property
    def tilt(self) -> int:
        return self.release + self.learning

    def lessened(self) -> Spending:
        """Three quarters of it."""
        return Spending(self.release * 3 // 4, self.learning * 3 // 4)


def spending(
    stream: StreamPolicy,
    window: str,
    scope: str = "cohort",
    *,
    theta: Theta,
    noises: Iterable[Noise],
    device_tilt: int = 0,
) -> Spending:
    """How much of the public budget a window of a cohort without device-specific settings may spend.

    The window's method says which tilt keeps ε at every tick for ever (pufferfish/window_method.py). Nothing here
    depends on the data but Θ, which was learned from charged statistics, and the noise settings, made from it.
    """
    method = stream.windows[window].method
    return share_of_window(
        stream, window, scope, allowed(stream, method, theta, noises, LARGEST_TILT, device_tilt)
    )


def share_of_window(stream: StreamPolicy, window: str, scope: str, tilt: float) -> Spending:
    """What one window spends of a tilt that keeps ε at every tick.

    The windows of the policy, once for each of their scopes, share it equally; the shortest also pays for learning.
    """
    learning = tilt * stream.learned_share
    share = (tilt - learning) / sum(len(each.scopes) for each in stream.windows.values())
    if not pays_for_learning(stream, window, scope):
        learning = 0.0
    return Spending(release=math.floor(share * NANO), learning=math.floor(learning * NANO))


def pays_for_learning(stream: StreamPolicy, window: str, scope: str) -> bool:
    """Whether statistics are drawn with this window: one of each stream, the shortest, and once."""
    return (
        stream.learned_share > 0
        and window == shortest_window(stream)
        and scope == stream.windows[window].scopes[0]
    )


def shortest_window(stream: StreamPolicy) -> str:
    return min(stream.windows, key=lambda name: (stream.windows[name].ticks, name))
