"""The undecided adversary, who knows Θ and not which of its chains is the true one: any mixture over Θ.

A stream also teaches which chain it is, and the chain tells of every instant. No mixture over Θ loses more than the
*odds spread* of Θ, the width of the log-odds of one state against another over its chains, plus the largest loss to the
prior adversary inside Θ; nor more than all tilts of the history together (docs/theory-world.md, Theorem 26). For a long
stream there is nothing cheaper but a narrower Θ (Theorem 27).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hushmq.pufferfish.timeline.entry import Entry, Price
from hushmq.pufferfish.timeline.tilt_runs import to_nats, to_units

if TYPE_CHECKING:
    from hushmq.pufferfish.protocols import Theta, Timeline

_SLACK = 2.0**-48
"""Exceeds the relative error of a sum of two rounded numbers."""

_MARGIN = 2.0**-40
"""Exceeds the rounding errors that a loss inside Θ contains."""


def with_spread(inside: float, spread: float) -> float:
    """The loss to the undecided adversary on an endless stream, from the loss inside Θ and the odds spread of Θ."""
    return (inside + spread) * (1.0 + _SLACK) if inside and spread else inside


def left_inside(epsilon: float, spread: float) -> float:
    """What the odds spread leaves of ε for the loss inside Θ, rounded down; 0 if nothing."""
    return max(0.0, epsilon - spread - _MARGIN * (1.0 + epsilon + spread)) if spread else epsilon


def spread_error(theta: Theta, epsilon: float) -> str | None:
    """Why nothing can be published to the undecided adversary within ε; None where the odds spread leaves room."""
    spread = theta.odds_spread
    if left_inside(epsilon, spread):
        return None
    return (
        f"the undecided adversary learns which chain of Θ it is: the long-run odds of a state differ by {spread:.4g} "
        f"nats over {theta.in_words()}, and ε is {epsilon:g}, so no noise keeps it: narrow Θ (theta.start in a "
        f'policy), raise ε above {spread:.4g}, or choose adversary = "informed"'
    )


class UndecidedTimeline:
    """A timeline for the prior adversary, priced for the undecided one."""

    def __init__(self, inside: Timeline, spread: float, entries: Iterable[Entry] = ()) -> None:
        """`inside` is priced for the prior adversary and holds these entries already."""
        self._inside, self._spread = inside, spread
        self._total = sum(map(_total_tilt, entries))

    def add(self, entry: Entry) -> None:
        """Adds an entry to the history."""
        # A shallow copy of this timeline shares `_inside` with it.
        inside = copy.copy(self._inside)
        inside.add(entry)
        self._inside = inside
        self._total += _total_tilt(entry)

    def price(self) -> Price:
        """The price of the history."""
        return self._priced(self._inside.price(), self._total)

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline does not change."""
        return self._priced(self._inside.price_with(entry), self._total + _total_tilt(entry))

    def _priced(self, inside: Price, total: int) -> Price:
        """Spread and loss inside, or all tilts together where these are less; never less than the loss inside.

        Ticks far from all entries, of which a known chain would tell nothing, are told of by the spread.
        """
        loss = (inside.epsilon + self._spread) * (1.0 + _SLACK) if self._spread else inside.epsilon
        return Price(max(inside.epsilon, min(loss, to_nats(total))), inside.tick)


def _total_tilt(entry: Entry) -> int:
    return (entry.last - entry.first + 1) * to_units(max(entry.tau0, entry.tau1))
