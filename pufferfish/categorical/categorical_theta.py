"""Θ of a stream of k states: intervals of every transition probability, forwards and backwards in time.

Methods that price import their engines when called, because the engines import this value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hushmq.pufferfish.adversary import Adversary, check_adversary
from hushmq.pufferfish.categorical.transition_intervals import Rows, TransitionIntervals
from hushmq.pufferfish.undecided import UndecidedTimeline, left_inside, spread_error, with_spread
from hushmq.pufferfish.window_method import stride_error

if TYPE_CHECKING:
    from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
    from hushmq.pufferfish.protocols import Theta, Timeline
    from hushmq.pufferfish.timeline.entry import Entry, Ticks
    from hushmq.pufferfish.window_method import Method


@dataclass(frozen=True, slots=True)
class CategoricalTheta:
    """Θ for k states: chains whose transitions lie in `forward`, and their time reversals' in `backward`.

    Every step may have another matrix (docs/theory-world.md, Theorem 18), unless Θ is a single one: that is stationary.
    """

    forward: TransitionIntervals
    backward: TransitionIntervals

    @classmethod
    def of(
        cls, forward: TransitionIntervals, backward: TransitionIntervals | None = None
    ) -> CategoricalTheta:
        """The chains of `forward` whose reversals are in `backward`, if given; either implies bounds on the other."""
        implied = forward.reversal()
        return cls(forward, implied if backward is None else implied.intersect(backward))

    @classmethod
    def between(cls, low: Sequence[Sequence[float]], high: Sequence[Sequence[float]]) -> CategoricalTheta:
        """All chains whose transition probabilities lie between two matrices, entry by entry."""
        return cls.of(TransitionIntervals(tuple(map(tuple, low)), tuple(map(tuple, high))))

    @classmethod
    def point(cls, transition: Sequence[Sequence[float]]) -> CategoricalTheta:
        """The one chain with these transition probabilities."""
        return cls.of(TransitionIntervals.point(transition))

    @property
    def k(self) -> int:
        """The number of states."""
        return self.forward.k

    @property
    def states(self) -> int:
        """The number of states."""
        return self.forward.k

    @property
    def transition_bounds(self) -> tuple[Rows, Rows]:
        """The lowest and the highest probability of every transition, row by row."""
        return self.forward.low, self.forward.high

    @property
    def tilt_margin(self) -> float:
        """The relative margin below the largest tilt that absorbs the rounding of a timeline."""
        from hushmq.pufferfish.categorical.contraction import TILT_MARGIN  # noqa: PLC0415  # an engine

        return TILT_MARGIN

    @property
    def odds_spread(self) -> float:
        """How far the log-odds of two states differ over the chains; 0 for one chain."""
        from hushmq.pufferfish.categorical import categorical_spread  # noqa: PLC0415  # an engine

        return categorical_spread.odds_spread(self)

    def contains(self, other: Theta) -> bool:
        """Whether every chain of the other Θ is in this one."""
        return (
            isinstance(other, CategoricalTheta)
            and self.forward.contains(other.forward)
            and self.backward.contains(other.backward)
        )

    def hull(self, other: CategoricalTheta) -> CategoricalTheta:
        """The smallest such Θ that contains both."""
        return CategoricalTheta(self.forward.hull(other.forward), self.backward.hull(other.backward))

    def intersect(self, other: CategoricalTheta) -> CategoricalTheta:
        """The chains in both; ValueError if there are none."""
        return CategoricalTheta(
            self.forward.intersect(other.forward), self.backward.intersect(other.backward)
        )

    def timeline(
        self,
        adversary: Adversary,
        entries: Iterable[Entry] = (),
        ticks: Ticks | None = None,
        *,
        stride: int = 1,
    ) -> Timeline:
        """A history under Θ, to be priced as it grows."""
        from hushmq.pufferfish.categorical.categorical_timeline import categorical_timeline  # noqa: PLC0415  # an engine
        from hushmq.pufferfish.categorical.strided_states import StridedStatesTimeline  # noqa: PLC0415  # another

        check_adversary(adversary)
        spread = self._spread_for(adversary)
        entries = list(entries)
        inside: Timeline
        if stride != 1:
            inside = StridedStatesTimeline(self, entries, stride=stride, ticks=ticks)
        else:
            inside = categorical_timeline(self, entries, ticks=ticks, informed=adversary == "informed")
        return UndecidedTimeline(inside, spread, entries) if adversary == "undecided" else inside

    def constant_loss(self, tau0: float, tau1: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The certified loss of a stream with the larger tilt at every tick; infinite if there is no certificate."""
        from hushmq.pufferfish.categorical import contraction, strided_states  # noqa: PLC0415  # engines

        spread, tau = self._spread_for(adversary), max(tau0, tau1)
        if stride != 1:
            return with_spread(strided_states.constant_loss(self, tau, stride), spread)
        return with_spread(contraction.constant_loss(self, tau, informed=adversary == "informed"), spread)

    def largest_tilts(self, epsilon: float, adversary: Adversary, *, stride: int = 1) -> tuple[float, float]:
        """The largest tilt with a certified loss of at most ε, less `tilt_margin`, twice; 0 if there is none."""
        from hushmq.pufferfish.categorical import contraction, strided_states  # noqa: PLC0415  # engines

        left = left_inside(epsilon, self._spread_for(adversary))
        if stride != 1:
            tau = strided_states.largest_tilt(self, left, stride) * (1.0 - self.tilt_margin)
            return tau, tau
        tau = contraction.largest_tilt_within(self, left, informed=adversary == "informed") if left else 0.0
        return tau, tau

    def method_error(self, method: Method, adversary: Adversary) -> str | None:
        """Why the window method does not hold against the adversary; None if it does."""
        from hushmq.pufferfish.categorical import categorical_window  # noqa: PLC0415  # an engine

        return categorical_window.method_error(method, adversary)

    def window_limit(self, method: Method, epsilon: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The largest tilt at every tick for ever that the method allows; ValueError where it does not hold."""
        from hushmq.pufferfish.categorical import categorical_window  # noqa: PLC0415  # an engine

        if stride != 1:
            return self._strided_window_tilt(method, epsilon, adversary, stride)
        left = left_inside(epsilon, self._spread_for(adversary))
        return categorical_window.window_limit(self, method, left, adversary) if left else 0.0

    def window_tilt(self, method: Method, epsilon: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The largest tilt that the method allows and a timeline prices within ε; 0 if there is none.

        ValueError where the method does not hold.
        """
        from hushmq.pufferfish.categorical import categorical_window  # noqa: PLC0415  # an engine

        if stride != 1:
            return self._strided_window_tilt(method, epsilon, adversary, stride)
        left = left_inside(epsilon, self._spread_for(adversary))
        return categorical_window.window_tilt(self, method, left, adversary) if left else 0.0

    def _strided_window_tilt(
        self, method: Method, epsilon: float, adversary: Adversary, stride: int
    ) -> float:
        if (reason := self.method_error(method, adversary) or stride_error(method)) is not None:
            raise ValueError(reason)
        return self.largest_tilts(epsilon, adversary, stride=stride)[0]

    def optimal_noise(
        self,
        epsilon: float,
        adversary: Adversary,
        device_tilt: float = 0.0,
        share: float = 1.0,
        *,
        stride: int = 1,
    ) -> CategoricalNoise:
        """Randomized response of a share of the largest tilt that is proved to keep ε, less `device_tilt`.

        ValueError where nothing is left of it.
        """
        from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise  # noqa: PLC0415  # uses the engine

        if stride != 1 and device_tilt:
            raise ValueError("device windows are not priced beside a stride")
        tau, _ = self.largest_tilts(epsilon, adversary, stride=stride)
        if adversary == "undecided" and (reason := spread_error(self, epsilon)) is not None:
            raise ValueError(reason)
        if not tau:
            raise ValueError(
                f"Θ: its chains may forget too slowly for ε of {epsilon:g}"
                + (f" and a stride of {stride}" if stride != 1 else "")
            )
        tau *= share
        if tau <= device_tilt:
            raise ValueError(
                f"device windows cost {device_tilt:.4f} at every tick; ε of {epsilon:g} allows {tau:.4f}"
            )
        return CategoricalNoise.response(self.states, tau - device_tilt)

    def sampling_variance(self, stride: int) -> float:
        """The variance of a share of every `stride`-th tick about that of all ticks, times these."""
        from hushmq.pufferfish.categorical.strided_sampling import sampling_variance  # noqa: PLC0415  # needs numpy

        return sampling_variance(self, stride)

    def _spread_for(self, adversary: Adversary) -> float:
        """What the adversary may learn beside the loss inside Θ: the odds spread for the undecided one, else 0."""
        return self.odds_spread if adversary == "undecided" else 0.0

    def in_brief(self) -> str:
        """The intervals of staying and of moving, over all states."""
        low, high, k = self.forward.low, self.forward.high, self.states
        stay = min(low[x][x] for x in range(k)), max(high[x][x] for x in range(k))
        moves = [(x, u) for x in range(k) for u in range(k) if u != x]
        move = min(low[x][u] for x, u in moves), max(high[x][u] for x, u in moves)
        return f"stay {stay[0]:.3g}–{stay[1]:.3g}, move {move[0]:.3g}–{move[1]:.3g}"

    def in_words(self) -> str:
        """A description of Θ."""
        stays = ", ".join(
            f"[{self.forward.low[u][u]:.4g}, {self.forward.high[u][u]:.4g}]" for u in range(self.states)
        )
        return f"a chain of {self.states} states that stay from tick to tick with probabilities in {stays}"

    def as_tree(self) -> dict[str, Any]:
        """Θ as numbers and lists, exactly."""
        return {**_lists(self.forward), "backward": _lists(self.backward)}


def _lists(intervals: TransitionIntervals) -> dict[str, list[list[float]]]:
    return {"low": [list(row) for row in intervals.low], "high": [list(row) for row in intervals.high]}
