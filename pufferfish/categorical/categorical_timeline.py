"""The timeline of a k-state stream for a categorical Θ: a tilt for every tick, and its largest loss.

Let R_t bound the log-ratio that the ticks after t give about the state at t, one number for all pairs of states. With
R = 0 after the last tilt,

    R_t = min_h [ τ_{t+1} + … + τ_{t+h−1} + step_h(τ_{t+h} + R_{t+h}) ],

where step_h is the step of h instants of `contraction`; L_t is the same for the ticks before t, with the time
reversals. No mechanism with these tilts, adaptive or not, has a loss at tick t above τ_t + L_t + R_t for any chain of
Θ, against the *prior* adversary (docs/theory-k.md, Theorem 8). Against the *informed* one the steps are projective, and
no R exceeds that of an endless stream of the largest tilt (pufferfish/categorical/informed_side.py).

Where steps of one tick are the best, as they are for chains that rather stay than leave, both sides are Möbius maps in
pieces, and the cost of a run does not depend on its length (pufferfish/categorical/one_tick_search.py). Otherwise the
recursion goes from tick to tick (pufferfish/categorical/stepped_timeline.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.one_tick_search import one_tick_search
from hushmq.pufferfish.categorical.stepped_timeline import SteppedTimeline
from hushmq.pufferfish.mobius.changing_search import SearchedRuns
from hushmq.pufferfish.mobius.searched_timeline import SearchedTimeline
from hushmq.pufferfish.timeline.entry import Entry, Ticks


def categorical_timeline(
    theta: CategoricalTheta,
    entries: Iterable[Entry] = (),
    *,
    ticks: Ticks | None = None,
    informed: bool = False,
) -> SearchedTimeline[SearchedRuns] | SteppedTimeline:
    """The entries of one stream and audience, priced incrementally for the worst chain of Θ.

    With `ticks` the price is the largest loss at these.
    """
    search = one_tick_search(theta, informed=informed)
    if search is not None:
        return SearchedTimeline(search, entries, ticks=ticks)
    return SteppedTimeline(theta, entries, ticks=ticks, informed=informed)
