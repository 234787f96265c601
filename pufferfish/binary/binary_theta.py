"""Θ of a stream of two states: intervals of q = P(0→1) and r = P(1→0).

Methods that price import their engines when called, because the engines import this value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.undecided import spread_error
from hushmq.pufferfish.window_method import stride_error

if TYPE_CHECKING:
    from hushmq.pufferfish.protocols import Theta, Timeline
    from hushmq.pufferfish.timeline.entry import Entry, Ticks
    from hushmq.pufferfish.window_method import Method


@dataclass(frozen=True, slots=True)
class BinaryTheta:
    """Θ, the chains an adversary may believe in: q and r each in a closed interval inside (0, 1)."""

    q_low: float
    q_high: float
    r_low: float
    r_high: float

    def __post_init__(self) -> None:
        for name, low, high in (("q", self.q_low, self.q_high), ("r", self.r_low, self.r_high)):
            if not (0.0 < low <= high < 1.0):
                raise ValueError(
                    f"Θ: {name} is [{low!r}, {high!r}]; it must be an interval inside (0, 1), low end first"
                )

    @classmethod
    def point(cls, q: float, r: float) -> BinaryTheta:
        """The Θ of one chain."""
        return cls(q, q, r, r)

    @property
    def states(self) -> int:
        """Two."""
        return 2

    @property
    def tilt_margin(self) -> float:
        """0: the largest tilts are exact."""
        return 0.0

    @property
    def odds_spread(self) -> float:
        """How far the log-odds of the state differ over the chains; 0 for one chain."""
        from hushmq.pufferfish.binary import binary_spread  # noqa: PLC0415  # an engine

        return binary_spread.odds_spread(self)

    def contains(self, other: Theta) -> bool:
        """Whether every chain of the other Θ is in this one."""
        return (
            isinstance(other, BinaryTheta)
            and self.q_low <= other.q_low
            and other.q_high <= self.q_high
            and self.r_low <= other.r_low
            and other.r_high <= self.r_high
        )

    def intersect(self, other: BinaryTheta) -> BinaryTheta:
        """The chains in both; ValueError if there are none."""
        low_q, high_q = max(self.q_low, other.q_low), min(self.q_high, other.q_high)
        low_r, high_r = max(self.r_low, other.r_low), min(self.r_high, other.r_high)
        if low_q > high_q or low_r > high_r:
            raise ValueError(f"Θ: {self} and {other} have no chain in common")
        return BinaryTheta(low_q, high_q, low_r, high_r)

    def hull(self, other: BinaryTheta) -> BinaryTheta:
        """The smallest such Θ that contains both."""
        return BinaryTheta(
            min(self.q_low, other.q_low),
            max(self.q_high, other.q_high),
            min(self.r_low, other.r_low),
            max(self.r_high, other.r_high),
        )

    @property
    def single(self) -> bool:
        """Whether Θ is a single chain."""
        return self.q_low == self.q_high and self.r_low == self.r_high

    @property
    def transition_bounds(self) -> tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]:
        """The lowest and the highest probability of every transition, row by row."""
        low = ((1 - self.q_high, self.q_low), (self.r_low, 1 - self.r_high))
        high = ((1 - self.q_low, self.q_high), (self.r_high, 1 - self.r_low))
        return low, high

    def worst_corners(self) -> list[tuple[float, float]]:
        """The corners (q, r) with the largest loss: one, or two if Θ has chains on both sides of q+r = 1."""
        corners = []
        if self.q_low + self.r_low < 1.0:
            corners.append((self.q_low, self.r_low))
        if self.q_high + self.r_high >= 1.0:
            corners.append((self.q_high, self.r_high))
        return corners

    def timeline(
        self,
        adversary: Adversary,
        entries: Iterable[Entry] = (),
        ticks: Ticks | None = None,
        *,
        stride: int = 1,
    ) -> Timeline:
        """A history under Θ, to be priced as it grows; with `ticks`, at these alone."""
        from hushmq.pufferfish.binary import binary_timeline, strided_theta  # noqa: PLC0415  # engines

        if stride != 1:
            return strided_theta.timeline(self, adversary, entries, stride=stride, ticks=ticks)
        return binary_timeline.timeline(self, adversary, entries, ticks=ticks)

    def constant_loss(self, tau0: float, tau1: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The loss of an endless stream with these tilts at every tick, for the worst chain of Θ."""
        from hushmq.pufferfish.binary import stream_loss, strided_theta  # noqa: PLC0415  # engines

        if stride != 1:
            return strided_theta.constant_loss(self, tau0, tau1, adversary, stride)
        return stream_loss.constant_loss(self, tau0, tau1, adversary)

    def largest_tilts(self, epsilon: float, adversary: Adversary, *, stride: int = 1) -> tuple[float, float]:
        """The largest constant tilts with a loss of at most ε on an endless stream."""
        from hushmq.pufferfish.binary import stream_loss, strided_theta  # noqa: PLC0415  # engines

        if stride != 1:
            return strided_theta.largest_tilts(self, epsilon, adversary, stride)
        return stream_loss.cached_largest_tilts(self, epsilon, adversary)

    def method_error(self, method: Method, adversary: Adversary) -> str | None:
        """Why the window method does not hold under this Θ against the adversary; None if it does."""
        from hushmq.pufferfish.binary import binary_window  # noqa: PLC0415  # an engine

        return binary_window.method_error(self, method, adversary)

    def window_limit(self, method: Method, epsilon: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The largest tilt at every tick for ever that the method allows; ValueError where it does not hold."""
        from hushmq.pufferfish.binary import binary_window  # noqa: PLC0415  # an engine

        if stride != 1:
            if (reason := stride_error(method)) is not None:
                raise ValueError(reason)
            return min(self.largest_tilts(epsilon, adversary, stride=stride))

        return binary_window.window_limit(self, method, epsilon, adversary)

    def window_tilt(self, method: Method, epsilon: float, adversary: Adversary, *, stride: int = 1) -> float:
        """As `window_limit`: a timeline prices exactly."""
        return self.window_limit(method, epsilon, adversary, stride=stride)

    def optimal_noise(
        self,
        epsilon: float,
        adversary: Adversary,
        device_tilt: float = 0.0,
        share: float = 1.0,
        *,
        stride: int = 1,
    ) -> BinaryNoise:
        """The optimum in closed form, or what `device_tilt` leaves of a share of the largest tilts.

        ValueError if it leaves nothing.
        """
        from hushmq.pufferfish.binary import stream_loss, strided_theta  # noqa: PLC0415  # engines

        if stride != 1:
            if device_tilt:
                raise ValueError("device windows are not priced beside a stride")
            return strided_theta.optimal_noise(self, epsilon, adversary, stride, share)
        if not device_tilt and share == 1.0:
            return stream_loss.optimal_noise(self, epsilon, adversary)
        if adversary == "undecided" and (reason := spread_error(self, epsilon)) is not None:
            raise ValueError(reason)
        tau0, tau1 = (share * tau for tau in self.largest_tilts(epsilon, adversary))
        if min(tau0, tau1) <= device_tilt:
            raise ValueError(
                f"device windows cost {device_tilt:.4f} at every tick; ε of {epsilon:g} allows {min(tau0, tau1):.4f}"
            )
        return BinaryNoise.of_tilts(tau0 - device_tilt, tau1 - device_tilt)

    def in_brief(self) -> str:
        """The two intervals."""
        return f"q {self.q_low:.3g}–{self.q_high:.3g}, r {self.r_low:.3g}–{self.r_high:.3g}"

    def in_words(self) -> str:
        """A description of Θ."""
        return (
            f"a chain with P(0→1) in [{self.q_low:.4g}, {self.q_high:.4g}], "
            f"P(1→0) in [{self.r_low:.4g}, {self.r_high:.4g}]"
        )

    def as_tree(self) -> dict[str, Any]:
        """Θ as numbers, exactly."""
        return {"q": [self.q_low, self.q_high], "r": [self.r_low, self.r_high]}
