"""What every chain model provides, whatever its number of states: noise, Θ, and the timeline that prices a history.

Code that carries these values names these protocols; only a chain model itself (`binary/`, `categorical/`) knows which
class it handles. Values of one stream belong to one model: `intersect` and `hull` take a Θ of the same class.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.window_method import Method


class Noise(Protocol):
    """Independent noise on every state of a stream; a frozen, hashable value."""

    @property
    def states(self) -> int:
        """How many states the stream has."""

    @property
    def tilts(self) -> tuple[float, float]:
        """The tilt of the sanitized stream towards 0 and towards 1; equal where it is the same in all directions."""

    @property
    def signal(self) -> float:
        """How much of the state comes through, between 0 and 1."""

    def amplified(self, w: float) -> float:
        """The tilt on the true states of something whose tilt on the sanitized states is w, rounded up."""

    def release_tilt(self, tau: float) -> float:
        """The largest w with amplified(w) ≤ τ; infinite where the tilt of the stream itself is within τ."""

    def with_tilts(self, tau0: float, tau1: float) -> Self:
        """The noise of the same kind with at most these tilts that leaves the most signal."""

    @property
    def laws(self) -> Sequence[Sequence[float]]:
        """For each state, the probabilities of what is sent in it."""

    def frequency_weights(self) -> list[list[float]]:
        """Rows of weights a, one for each frequency that is estimated: the mean of a[z] over outputs z is unbiased."""

    def in_words(self) -> str:
        """The noise for people."""

    def as_tree(self) -> Any:
        """The noise for programs: numbers and lists, exactly."""

    def as_json(self) -> str:
        """The noise as it is stored, exactly. Fingerprints in the ledger depend on every byte."""

    @property
    def fingerprint(self) -> str:
        """What a ledger entry keeps of the noise it was charged through, beside its version."""


class Timeline(Protocol):
    """The entries of one stream and audience, priced as they are added."""

    def add(self, entry: Entry) -> None:
        """Add an entry to the history."""

    def price(self) -> Price:
        """The largest loss at any of the ticks it is for; infinite where nothing is proved."""

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline stays as it is."""


class Region(Protocol):
    """A set of chains that charged statistics leave, with confidence; a frozen, hashable value.

    It is a Θ where a Θ has the form of what statistics tell; a Θ of listed chains is what a region leaves of them.
    """

    def intersect(self, other: Self) -> Self:
        """The chains in both; ValueError if there are none."""

    def hull(self, other: Self) -> Self:
        """The smallest region of the same form that contains both."""

    def as_tree(self) -> dict[str, Any]:
        """The region for programs: numbers and lists, exactly."""


class Theta(Protocol):
    """Θ, the set of chains an adversary may believe in, tick by tick; a frozen, hashable value.

    A stream with a `stride` publishes one of every so many ticks, those of a device exactly so far apart, and its
    history is counted in strides. Its price is for secrets at every tick. Where nothing is proved for a stride,
    `constant_loss` is infinite, `largest_tilts` are 0, and all else raises ValueError.
    """

    @property
    def states(self) -> int:
        """How many states the chains have."""

    @property
    def tilt_margin(self) -> float:
        """The share of the largest tilt that `window_tilt` leaves unused."""

    @property
    def odds_spread(self) -> float:
        """How far the log-odds of one state against another differ over the chains, rounded up; 0 for one chain.

        What the undecided adversary may learn from the long run alone (docs/theory-world.md, Theorem 26).
        """

    def contains(self, other: Theta) -> bool:
        """Whether every chain of the other Θ is in this one; never for another number of states."""

    def intersect(self, other: Self) -> Self:
        """The chains in both; ValueError if there are none."""

    def hull(self, other: Self) -> Self:
        """The smallest Θ of the same form that contains both."""

    def timeline(
        self,
        adversary: Adversary,
        entries: Iterable[Entry] = (),
        ticks: Ticks | None = None,
        *,
        stride: int = 1,
    ) -> Timeline:
        """A history under Θ, to be priced as it grows; ValueError where the adversary is not supported.

        With `ticks` its price is the largest loss at these; entries anywhere else still tell something about them.
        """

    def constant_loss(self, tau0: float, tau1: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The loss of these tilts at every tick for ever, worst over Θ; infinite where nothing is proved. Memoised."""

    def largest_tilts(self, epsilon: float, adversary: Adversary, *, stride: int = 1) -> tuple[float, float]:
        """The largest tilts at every tick for ever whose loss is within ε; 0 where there are none. Memoised."""

    def method_error(self, method: Method, adversary: Adversary) -> str | None:
        """Why the window method does not hold under this Θ against the adversary; None if it does."""

    def window_limit(self, method: Method, epsilon: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The largest tilt at every tick for ever that the method allows; ValueError where it does not hold."""

    def window_tilt(self, method: Method, epsilon: float, adversary: Adversary, *, stride: int = 1) -> float:
        """The largest tilt at every tick for ever that the method allows and a timeline prices within ε. Memoised.

        0 if there is none; ValueError where the method does not hold.
        """

    def optimal_noise(
        self,
        epsilon: float,
        adversary: Adversary,
        device_tilt: float = 0.0,
        share: float = 1.0,
        *,
        stride: int = 1,
    ) -> Noise:
        """The noise with the most signal whose loss on an endless stream is within ε.

        `device_tilt` is what else every tick is tilted by, in nats; both together use at most `share` of the largest
        tilts. ValueError where no noise keeps ε.
        """

    def in_words(self) -> str:
        """Θ for people, in a sentence."""

    def in_brief(self) -> str:
        """Θ for people, in a column of a table."""

    def as_tree(self) -> dict[str, Any]:
        """Θ for programs: numbers and lists, exactly."""
