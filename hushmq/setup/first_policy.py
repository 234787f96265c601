"""The policy of a new site: one stream of two states, from how long they last."""

from __future__ import annotations

from collections.abc import Mapping

from hushmq.broker.contract.policy_message import (
    Audiences,
    Labels,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.forecast.choose_stride import best_strides
from hushmq.broker.forecast.dwell_times import assumption_of_dwell

START, FLOOR = 2.0, 1.5
"""Factors within which states last as long as was said: before any evidence, and whatever the evidence."""
LENGTHS = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
LEAST_TICKS = 60
"""A window has at least this many ticks: one with fewer tells little of a single device."""


def windows_for(period: float) -> dict[str, Window]:
    """Return the two shortest usual windows that have enough ticks; of a slow stream the longest one."""
    ticks = {name: round(seconds / period) for name, seconds in LENGTHS.items()}
    enough = [name for name, number in ticks.items() if number >= LEAST_TICKS][:2]
    return {name: Window(ticks=max(1, ticks[name])) for name in enough or ["week"]}


def first_policy(
    *,
    cohort: str,
    stream: str,
    states: tuple[str, str],
    dwell: tuple[float, float],
    period: float,
    epsilon: float,
    threshold: float | None,
    windows: Mapping[str, Window] | None = None,
) -> Policy:
    """Return the policy of a site whose stream has two states, which last `dwell` seconds on average.

    Values are numbers if there is a threshold, otherwise the names of the states. The public has half of the
    operators' ε, and the stride is what is best for the windows.
    """
    every_tick = Policy(
        version=1,
        cohort=cohort,
        streams={
            stream: StreamPolicy(
                states=states,
                period_ms=max(1, round(period * 1000)),
                discretiser=Labels() if threshold is None else Threshold(at=threshold),
                epsilon=Audiences(operator=epsilon, public=epsilon / 2),
                windows=dict(windows or windows_for(period)),
                theta=assumption_of_dwell(dwell, period, start=START, floor=FLOOR),
            )
        },
    )
    return best_strides(every_tick)
