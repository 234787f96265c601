"""The pictures of Θ: its bounds setting by setting, what was learned of single devices, and regimes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from hushmq.broker.contract.messages import NoiseSetting
from hushmq.console.charts.chart import Band, Bars, Chart, Dots, Line, Numbers
from hushmq.console.pages_text import duration, percent
from hushmq.console.state.leaving_chances import Bounds, leaving_chances
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

Issued = tuple[float, NoiseSetting]
"""When a setting was issued, in seconds since the epoch, and the setting."""
DRAWN_STATES = 6
"""States of which the bounds are drawn: as many as there are colours."""


def moves(states: Sequence[str]) -> list[str]:
    """What the bounds of each state are of, in words."""
    if len(states) == 2:
        return [f"{states[0]} → {states[1]}", f"{states[1]} → {states[0]}"]
    return [f"leaves {one}" for one in states[:DRAWN_STATES]]


def theta_chart(settings: Sequence[Issued], states: Sequence[str], until: float) -> Chart | None:
    """The bounds of the chance to leave each state, setting by setting; None before the first setting."""
    if not settings:
        return None
    ends = [*settings, (max(until, settings[-1][0] + 1), settings[-1][1])]
    bounds = [leaving_chances(one.theta.chains)[:DRAWN_STATES] for _, one in ends]
    sides = list(zip(*bounds, strict=True))
    names = moves(states)
    return Chart(
        title=f"Θ over {len(settings)} settings: bounds of the chance of {', '.join(names)} at the next tick",
        times=[time for time, _ in ends],
        layers=[
            *(
                Band([low for low, _ in side], [high for _, high in side], f"s{n}")
                for n, side in enumerate(sides)
            ),
            *(Line([one[end] for one in side], f"s{n}") for n, side in enumerate(sides) for end in (0, 1)),
        ],
        low=0.0,
        high=_above(high for side in sides for _, high in side),
        write=lambda one: f"{one:.2g}",
        points=[
            [
                f"setting {one.version}, policy {one.policy}",
                *(f"{name}: {low:.3g} to {high:.3g}" for name, (low, high) in zip(names, mine, strict=True)),
                one.noise.noise.in_words(),
            ]
            for (_, one), mine in zip(ends, bounds, strict=True)
        ],
    )


def coverage_chart(theta: Bounds, devices: Sequence[tuple[str, Bounds]], words: str) -> Chart | None:
    """The bounds that were learned of single devices, over those of the cohort's Θ; None without any device."""
    if not devices:
        return None
    ordered = sorted(devices, key=lambda one: sum(one[1]))
    (low, high), count = theta, len(ordered)
    said = [[name, f"{words}: {a:.3g} to {b:.3g}", f"Θ: {low:.3g} to {high:.3g}"] for name, (a, b) in ordered]
    inside = sum(low <= a and b <= high for _, (a, b) in ordered)
    return Chart(
        title=f"{words}: what was learned of {count} devices; {inside} lie within Θ, {low:.3g} to {high:.3g}",
        times=[-0.5, *map(float, range(count)), count - 0.5],
        layers=[
            Band([low] * (count + 2), [high] * (count + 2), "s0"),
            Bars(
                [None, *(a for _, (a, _) in ordered), None],
                [None, *(b for _, (_, b) in ordered), None],
                "device",
            ),
        ],
        low=0.0,
        high=_above((high, *(b for _, (_, b) in ordered))),
        write=lambda one: f"{one:.2g}",
        points=[said[0], *said, said[-1]],
        names=[words, f"{count} devices"],
    )


def regime_chart(
    start: RegimeTheta, learned: RegimeTheta | None, states: Sequence[str], tick_s: float
) -> Chart:
    """The regimes of every chain that the policy lists: how long each lasts, and its share of the second state.

    Chains that the evidence excludes are drawn apart from those that it leaves.
    """
    left = set((learned or start).members)
    found = sorted(
        (math.log10(lasts), share, number, chain in left)
        for number, chain in enumerate(start.members, start=1)
        for lasts, share in _regimes(chain)
    )
    times = [place for place, *_ in found]
    low, high = times[0], times[-1]
    return Chart(
        title=f"Regimes of the {len(start.members)} chains that the policy lists; evidence leaves {len(left)} of them",
        times=times,
        layers=[
            Dots(_where(found, left=False), "raw"),
            Dots(_where(found, left=True), "seen"),
        ],
        low=0.0,
        high=1.0,
        write=lambda one: percent(one, 0),
        points=[
            [
                f"chain {number}, {'possible' if possible else 'excluded by the evidence'}",
                f"{states[1]} {percent(share)} of the time in this regime",
                f"it lasts {10**place:,.0f} ticks on average, {duration(10**place * tick_s)}",
            ]
            for place, share, number, possible in found
        ],
        names=[duration(10 ** (low + (high - low) * n / 4) * tick_s) for n in range(5 if high > low else 1)],
    )


def _regimes(chain: RegimeChain) -> list[tuple[float, float]]:
    """By regime, how many ticks it lasts on average, and the share of the second state within it."""
    stays = [chain.transition[n][n] for n in range(chain.regimes)]
    return [
        (1.0 / max(1.0 - stay, 1e-12), q / (q + r)) for stay, (q, r) in zip(stays, chain.chains, strict=True)
    ]


def _where(found: Sequence[tuple[float, float, int, bool]], *, left: bool) -> Numbers:
    return [share if possible == left else None for _, share, _, possible in found]


def _above(values: Iterable[float]) -> float:
    """An end of the axis above all of these chances."""
    return min(1.0, 1.15 * max([1e-6, *values]))
