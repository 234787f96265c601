"""The stream that is planned: Θ for any period, and the period at which a window is known best."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Labels,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.choose_stride import best_strides
from hushmq.broker.forecast.stream_plan import StreamPlan, plan_policy
from hushmq.pufferfish.adversary import Adversary

PERIODS = (
    *(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30),
    *(60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10_800, 14_400, 21_600, 28_800, 43_200, 86_400),
)
"""Periods that are tried, in seconds."""
ROOM = 1e-5
"""The part of a scale that is added for rounding."""


@dataclass(frozen=True, slots=True)
class PlannedStream:
    """What is asked of a stream, but for its period."""

    cohort: str
    name: str
    states: tuple[str, ...]
    threshold: float | None
    dwell: tuple[float, ...]
    """Seconds that each state lasts on average."""
    assumption: Callable[[float], Assumption]
    """Θ at a period in seconds; it raises Problem where there is none."""
    windows: Mapping[str, float]
    """Seconds of each window."""
    scopes: tuple[str, ...]
    epsilon: float
    public: float
    adversary: Adversary
    devices: int
    by_devices: bool = False
    """Whether each device counts and releases its windows itself, rather than the calibrator from the stream."""

    def policy(self, period: float, epsilon: float | None = None, *, every_tick: bool = False) -> Policy:
        """Return the policy at a period, with the best stride or for every tick.

        Raises Problem where a window does not fit the period.
        """
        for name, seconds in self.windows.items():
            if seconds < period * (1 - 1e-9):
                raise Problem(f"--window: {name} is shorter than the period, {period:g} s")
        operator = self.epsilon if epsilon is None else epsilon
        lengths = {name: max(1, round(seconds / period)) for name, seconds in self.windows.items()}
        stream = StreamPolicy.model_validate(
            {
                "states": self.states,
                "period_ms": max(1, round(period * 1000)),
                "discretiser": Labels() if self.threshold is None else Threshold(at=self.threshold),
                "adversary": self.adversary,
                "epsilon": Audiences(operator=operator, public=operator * self.public / self.epsilon),
                "windows": {
                    name: Window.model_validate({"ticks": ticks, "scopes": self.scopes})
                    for name, ticks in lengths.items()
                },
                "theta": self.assumption(period),
            }
        )
        if self.by_devices:
            stream = _made_by_devices(stream, lengths)
        every = Policy(version=1, cohort=self.cohort, streams={self.name: stream})
        return every if every_tick else best_strides(every, devices=self.devices)

    def plan(self, period: float, epsilon: float | None = None, *, every_tick: bool = False) -> StreamPlan:
        """Return what can be had at a period."""
        policy = self.policy(period, epsilon, every_tick=every_tick)
        return plan_policy(policy, {self.name: self.devices})[self.name]

    def error(self, plan: StreamPlan) -> float:
        """Return the mean logarithm of the errors asked for, before anything is learned; infinite where nothing is."""
        found = [one.standard_error for one in plan.first_windows if one.scope in self.scopes]
        return sum(map(math.log, found)) / len(found) if found else math.inf

    def price_of_covering(self, plan: StreamPlan, period: float, recorded_only: Assumption) -> str:
        """Return by how much the intervals are wider at first than if Θ covered the recorded people alone, in words."""
        alone = replace(self, assumption=lambda _: recorded_only).plan(period)
        now = {(one.window, one.scope): one.half_width for one in plan.first_windows}
        parts = [
            f"{one.window} of {'the cohort' if one.scope == 'cohort' else 'a device'} "
            f"{'nothing' if (one.window, one.scope) not in now else f'±{now[one.window, one.scope]:.2g}'} "
            f"instead of ±{one.half_width:.2g}"
            for one in alone.first_windows
            if one.scope in self.scopes
        ]
        return f"the price of covering more than the recorded ones (--coverage 0): {', '.join(parts)}"

    def width(self, plan: StreamPlan, window: str) -> float:
        """Return the half-width of a window's interval for the first scope that was asked for, once Θ is learned."""
        return next(
            one.half_width
            for one in plan.best_windows
            if one.window == window and one.scope == self.scopes[0]
        )


def _made_by_devices(stream: StreamPolicy, lengths: Mapping[str, int]) -> StreamPolicy:
    """Return the stream whose devices count the windows themselves, with the least noise that keeps the public's ε.

    They share the tilt of one tick equally, and nothing is left for learning. Raises Problem where there is no tilt.
    """
    tilt = stream.theta.start.chains.window_tilt("least-noise", stream.epsilon.public, stream.adversary)
    if not tilt > 0:
        raise Problem("--public: no window of a device is within it: chains of Θ may mix too slowly")
    scale = float(f"{stream.counts_changed * len(lengths) / tilt * (1 + ROOM):.6g}")
    made = {name: {"ticks": ticks, "scale": scale} for name, ticks in lengths.items()}
    tree = stream.model_dump() | {"windows": {}, "device_windows": made}
    return StreamPolicy.model_validate(tree)


def try_periods(
    stream: PlannedStream, window: str, allowed: Callable[[float], bool]
) -> list[tuple[float, float]]:
    """Return the periods at which something can be published, with the half-width of a window at each.

    All of their ticks are published: with strides, short periods would be as good as long ones.
    """
    fastest, slowest = min(stream.dwell) / 50, min(10 * max(stream.dwell), *stream.windows.values())
    tried = [each for each in PERIODS if fastest <= each <= slowest and allowed(each)]
    found = []
    for period in tried:
        try:
            found.append((period, stream.width(stream.plan(period, every_tick=True), window)))
        except Problem:
            continue
    if not found:
        raise Problem(
            "--epsilon: no period from 50 ms to a day lets anything be published: raise it, or give --period"
        )
    return found


def best_period(tried: list[tuple[float, float]]) -> float:
    """Return the period with the narrowest interval."""
    return min(tried, key=lambda one: one[1])[0]
