"""Θ as a finite set of binary chains with hidden regimes: what every one of them loses, priced by the worst.

Methods that price import their engines when called, because a device that holds this value may never need them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.undecided import UndecidedTimeline, left_inside, spread_error, with_spread

if TYPE_CHECKING:
    from hushmq.pufferfish.binary.binary_noise import BinaryNoise
    from hushmq.pufferfish.protocols import Theta, Timeline
    from hushmq.pufferfish.timeline.entry import Entry, Ticks
    from hushmq.pufferfish.window_method import Method

MOST_MEMBERS = 32

INFORMED_ERROR = (
    "who knows states besides is not covered for chains with regimes, since a known state does not block: the regime "
    'goes on behind it. Choose adversary = "prior"'
)

_SPREAD_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class RegimeTheta:
    """Θ for two states: these chains, each stationary. Regimes are hidden; the adversary knows which chain it is."""

    members: tuple[RegimeChain, ...]

    @classmethod
    def of(cls, chains: Iterable[RegimeChain]) -> RegimeTheta:
        """The set of these chains, in order and without doubles; ValueError if there are none, or too many."""
        members = tuple(sorted(set(chains), key=lambda one: (one.regimes, one.chains, one.transition)))
        if not 1 <= len(members) <= MOST_MEMBERS:
            raise ValueError(f"regimes: {len(members)} chains; there must be 1 to {MOST_MEMBERS}")
        return cls(members)

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> RegimeTheta:
        """The Θ of `{"regimes": [{"transition": …, "chains": [{"q": …, "r": …}, …]}, …]}`, or of one such chain."""
        found = tree["regimes"]
        listed: Sequence[Mapping[str, Any]] = [found] if isinstance(found, Mapping) else found
        return cls.of(
            RegimeChain.of(one["transition"], [(chain["q"], chain["r"]) for chain in one["chains"]])
            for one in listed
        )

    @property
    def states(self) -> int:
        """Two: what is published is bits."""
        return 2

    @property
    def single(self) -> bool:
        """Whether Θ is a single chain."""
        return len(self.members) == 1

    @property
    def tilt_margin(self) -> float:
        """The share of the largest tilt that absorbs the rounding of a timeline."""
        from hushmq.pufferfish.regimes.set_loss import TILT_MARGIN  # noqa: PLC0415  # an engine

        return TILT_MARGIN

    @property
    def odds_spread(self) -> float:
        """How far the long-run log-odds of the bit differ over the chains; 0 for one chain."""
        odds = [math.log(member.ones / (1.0 - member.ones)) for member in self.members]
        return 0.0 if self.single else (max(odds) - min(odds)) * (1 + _SPREAD_ROUNDING) + _SPREAD_ROUNDING

    @property
    def transition_bounds(self) -> tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float], ...]]:
        """The lowest and the highest probability of every transition of the bit, whatever came before, row by row.

        Given the past, the next bit is drawn by a mixture of the regimes' chains.
        """
        q, r = zip(*(chain for member in self.members for chain in member.chains), strict=True)
        low = ((1 - max(q), min(q)), (min(r), 1 - max(r)))
        high = ((1 - min(q), max(q)), (max(r), 1 - min(r)))
        return low, high

    def sampling_variance(self, stride: int) -> float:
        """The variance of a share of every `stride`-th tick about that of all ticks, times these: the worst chain's."""
        from hushmq.pufferfish.regimes.regime_sampling import sampling_variance  # noqa: PLC0415  # a device needs none

        return max(sampling_variance(member, stride) for member in self.members)

    def contains(self, other: Theta) -> bool:
        """Whether every chain of the other Θ is one of these."""
        return isinstance(other, RegimeTheta) and set(other.members) <= set(self.members)

    def intersect(self, other: RegimeTheta) -> RegimeTheta:
        """The chains in both; ValueError if there are none."""
        common = set(self.members) & set(other.members)
        if not common:
            raise ValueError("no chain is in both sets")
        return RegimeTheta.of(common)

    def hull(self, other: RegimeTheta) -> RegimeTheta:
        """The chains of both."""
        return RegimeTheta.of((*self.members, *other.members))

    def timeline(
        self,
        adversary: Adversary,
        entries: Iterable[Entry] = (),
        ticks: Ticks | None = None,
        *,
        stride: int = 1,
    ) -> Timeline:
        """A history under Θ, to be priced as it grows; ValueError for the informed adversary."""
        from hushmq.pufferfish.regimes.set_timeline import SetTimeline  # noqa: PLC0415  # an engine

        spread = self._spread_for(adversary)
        entries = list(entries)
        inside = SetTimeline(self.members, entries, ticks=ticks, stride=stride)
        return UndecidedTimeline(inside, spread, entries) if adversary == "undecided" else inside

    def constant_loss(self, tau0: float, tau1: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The certified loss of an endless stream with these tilts at every `stride`-th tick, for the worst chain.

        Infinite where nothing is proved, so against the informed adversary.
        """
        from hushmq.pufferfish.regimes import set_loss  # noqa: PLC0415  # an engine

        if adversary == "informed":
            return math.inf if tau0 or tau1 else 0.0
        return with_spread(set_loss.constant_loss(self, tau0, tau1, stride), self._spread_for(adversary))

    def largest_tilts(self, epsilon: float, adversary: Adversary, *, stride: int = 1) -> tuple[float, float]:
        """The largest tilts found with a loss of at most ε at every `stride`-th tick; 0 against the informed one."""
        from hushmq.pufferfish.regimes import set_loss  # noqa: PLC0415  # an engine

        if adversary == "informed":
            return 0.0, 0.0
        left = left_inside(epsilon, self._spread_for(adversary))
        return set_loss.largest_tilts(self, left, stride) if left else (0.0, 0.0)

    def method_error(self, method: Method, adversary: Adversary) -> str | None:
        """Why the window method does not hold under this Θ against the adversary; None if it does."""
        if adversary == "informed":
            return INFORMED_ERROR
        if method in {"mqm-exact", "mqm-approx"}:
            return f"{method} is for chains without hidden regimes: use tilted-quilt"
        return None

    def window_limit(self, method: Method, epsilon: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The largest tilt at every tick for ever that the method allows; ValueError where it does not hold."""
        reason = self.method_error(method, adversary)
        if reason is not None:
            raise ValueError(reason)
        return min(self.largest_tilts(epsilon, adversary, stride=stride))

    def window_tilt(self, method: Method, epsilon: float, adversary: Adversary, *, stride: int = 1) -> float:
        """As `window_limit`: the largest tilts leave room for the rounding of a timeline."""
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
        """The noise with the most signal that keeps ε: what `device_tilt` leaves of a share of the largest tilts.

        ValueError if it leaves nothing, or against the informed adversary.
        """
        from hushmq.pufferfish.binary.binary_noise import BinaryNoise  # noqa: PLC0415  # a device may need none

        if adversary == "informed":
            raise ValueError(INFORMED_ERROR)
        if adversary == "undecided" and (reason := spread_error(self, epsilon)) is not None:
            raise ValueError(reason)
        tau0, tau1 = (share * tau for tau in self.largest_tilts(epsilon, adversary, stride=stride))
        if min(tau0, tau1) <= device_tilt:
            raise ValueError(
                f"device windows cost {device_tilt:.4f} at every tick; ε of {epsilon:g} allows {min(tau0, tau1):.4f}"
            )
        return BinaryNoise.of_tilts(tau0 - device_tilt, tau1 - device_tilt)

    def _spread_for(self, adversary: Adversary) -> float:
        """What the adversary may learn beside the loss inside Θ; ValueError for the informed one."""
        if adversary == "informed":
            raise ValueError(INFORMED_ERROR)
        return self.odds_spread if adversary == "undecided" else 0.0

    def in_brief(self) -> str:
        """How many chains, and how many regimes they have."""
        regimes = sorted({member.regimes for member in self.members})
        most = f"{regimes[0]}–{regimes[-1]}" if len(regimes) > 1 else f"{regimes[0]}"
        share = sorted(member.ones for member in self.members)
        ones = f"{share[0]:.3g}" if self.single else f"{share[0]:.3g}–{share[-1]:.3g}"
        chains = "1 chain" if self.single else f"{len(self.members)} chains"
        return f"{chains} of {most} regimes, share of ones {ones}"

    def in_words(self) -> str:
        """A description of Θ."""
        which = "a chain" if self.single else f"one of {len(self.members)} chains"
        shares = [
            [f"{q / (q + r):.3g}" for q, r in member.chains] for member in (self.members[0], self.members[-1])
        ]
        listed = " to ".join(dict.fromkeys("/".join(one) for one in shares))
        return f"{which} with hidden regimes whose shares of ones are {listed}"

    def as_tree(self) -> dict[str, Any]:
        """Θ as numbers and lists, exactly."""
        return {
            "regimes": [
                {
                    "transition": [list(row) for row in member.transition],
                    "chains": [{"q": q, "r": r} for q, r in member.chains],
                }
                for member in self.members
            ]
        }
