"""Θ of a stream from recordings: first-order chains where they fit, else chains with hidden regimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from hushmq.broker.contract.policy_message import Assumption
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import theta_message
from hushmq.plan.read_recording import Recording, hull_of
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

if TYPE_CHECKING:
    from hushmq.plan.fit_regimes import FittedRegimes

START = 2.0
"""Θ before any evidence is wider than what was fitted by this factor both ways."""
COVERAGE = 0.95
"""With this probability a new person is covered, unless another is asked for."""
FEW = 5
"""Fewer recordings tell little of how people differ."""


@dataclass(frozen=True, slots=True)
class RecordedTheta:
    """Recordings of the same states, rows `every` seconds apart, and the class of chains that was chosen for them."""

    recordings: Sequence[Recording]
    every: float
    adversary: Adversary
    regimes: Assumption | None = None
    """Chains with regimes, for the recordings' own period; None for first-order chains."""
    recorded_only: Assumption | None = None
    """Where more than the recorded people are covered: the Θ that would cover these alone."""
    reasons: tuple[str, ...] = field(default=())

    @classmethod
    def choose(
        cls,
        recordings: Sequence[Recording],
        every: float,
        adversary: Adversary | None,
        regimes: Literal["auto", "yes", "no"],
        *,
        coverage: float,
        epsilons: Sequence[float],
    ) -> RecordedTheta:
        """Take regimes where they are asked for, or where recordings are no first-order chains; Problem if none fit.

        The informed adversary is not covered for regimes, so that one keeps to first order unless it is the default.
        Beside the recordings' chains Θ lists wider ones, which cover a new person with the probability `coverage`; 0
        lists none.
        """
        plain = cls(recordings, every, adversary or "informed")
        if regimes == "no" or (
            regimes == "auto" and (len(recordings[0].names) != 2 or adversary == "informed")
        ):
            return plain
        if len(recordings[0].names) != 2 or adversary == "informed":
            raise Problem(
                "--regimes: they are for two states, and against the prior or the undecided adversary"
            )
        try:
            from hushmq.plan.fit_regimes import MISFIT, fit_regimes, listed  # noqa: PLC0415  # needs numpy

            fits = [fit_regimes(one.states) for one in recordings]
            excess = max(one.excess for one in fits)
            if regimes == "auto" and excess <= MISFIT:
                return plain
            against = adversary or "prior"
            wider, covering = _wider(fits, coverage, every, epsilons, against)
            start, floor = listed(fits, wider)
        except (ImportError, ValueError) as error:
            if regimes == "yes":
                raise Problem(f"--regimes: {error}") from None
            return plain
        slowest = max(1 / one.coordinates.slow_rate for one in fits)
        reasons = [
            f"Θ is {start.in_brief()}: over some lags the states are correlated by {excess:.2f} more than first-order "
            f"chains have them; the slowest regimes recorded last some {slowest * every:.3g} s",
            f"the {against} adversary: who knows states besides is not covered for regimes",
            *covering,
        ]
        assumption = Assumption(start=theta_message(start), floor=theta_message(floor))
        alone = Assumption(start=theta_message(listed(fits)[0]), floor=assumption.floor) if wider else None
        return cls(recordings, every, against, assumption, alone, tuple(reasons))

    def assumption(self, period: float) -> Assumption:
        """Return Θ at a period; Problem where the rows are too few for it."""
        if self.regimes is not None:
            return self.regimes
        steps = max(1, round(period / self.every))
        return hull_of([one.assumption(steps, start=START, floor=1.0) for one in self.recordings])

    def allowed(self, period: float) -> bool:
        """Whether Θ can be had at this period: every so many rows, or with regimes every row."""
        steps = period / self.every
        most = 1.001 if self.regimes is not None else min(len(one.states) for one in self.recordings) / 20
        return steps > 0.999 and abs(steps - round(steps)) < 1e-6 and steps < most

    def dwell(self) -> tuple[float, ...]:
        """Return how many seconds each state lasts on average."""
        each = [one.dwell() for one in self.recordings]
        return tuple(self.every * sum(column) / len(column) for column in zip(*each, strict=True))


def _wider(
    fits: Sequence[FittedRegimes],
    coverage: float,
    every: float,
    epsilons: Sequence[float],
    adversary: Adversary,
) -> tuple[tuple[RegimeChain, ...], list[str]]:
    """Chains that cover a new person with this probability, and in words whom Θ covers."""
    from hushmq.plan.pilot_margin import LEAST_RECORDINGS, Margin, covered_when_left_out  # noqa: PLC0415  # needs numpy

    count = len(fits)
    if count < LEAST_RECORDINGS:
        wider = () if coverage == 0 else (fits[0].quicker(1 / START),)
        times = "" if coverage == 0 else f", even if regimes last {START:g} times as long"
        return wider, [
            f"WARNING: Θ covers the one who was recorded{times}; one recording does not show how people differ, so "
            f"nothing is promised to anybody else: give {FEW} or more"
        ]
    if coverage == 0:
        return (), [
            f"WARNING: Θ has the chains of these {count} recordings and quicker ones: whoever is slower, or differs "
            "more from regime to regime, is not covered"
        ]
    margin = Margin.of(fits, coverage)
    words = [
        f"a new person is covered with a probability of {coverage:g}, if people differ as these {count} do: regimes "
        f"that last up to {margin.slow_time * every:.3g} s, with log-odds up to {margin.contrast:.2g} from the overall "
        "ones; an ε below that has to hide the regime itself"
    ]
    if count > LEAST_RECORDINGS:
        kept = covered_when_left_out(fits, coverage, epsilons, adversary)
        words.append(
            f"{kept} of the {count} recordings would be covered if Θ had been planned without them, from the others"
        )
    if count < FEW:
        words.append(
            f"WARNING: {count} recordings tell little of how people differ; from {FEW} on less is left to chance"
        )
    return margin.chains(), words
