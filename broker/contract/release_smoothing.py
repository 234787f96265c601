"""Smoothed frequencies of a release, from the releases of its topic up to it and from the Θ that it names.

Nothing else goes in: whoever has the releases gets the same numbers, and they cost no privacy (docs/theory-accounts.md,
A10). Needs numpy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

from pydantic_core import from_json

from hushmq.broker.contract.messages import Release
from hushmq.broker.contract.theta_message import BinaryThetaMessage, RegimeThetaMessage
from hushmq.pufferfish.inference.nearest_distribution import nearest_distribution
from hushmq.pufferfish.inference.share_prior import (
    SharePrior,
    StateRates,
    binary_rates,
    categorical_rates,
    listed_prior,
    share_prior,
)
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

LONGEST = 256
"""How many windows back a smoothed frequency reaches, its own included."""


@dataclass(frozen=True, slots=True)
class ReleasedShares:
    """What of a release the later ones are smoothed with."""

    first: int
    length: int
    shares: Sequence[float]
    errors: Sequence[float]
    devices: int

    @classmethod
    def of(cls, message: Release) -> Self:
        return cls._of_tree({name: getattr(message, name) for name in _USED})

    @classmethod
    def stored(cls, payload: bytes) -> Self | None:
        """From the bytes of a release that was smoothed itself; None for one made before releases were smoothed."""
        tree = from_json(payload)
        return None if tree.get("smoothed") is None else cls._of_tree(tree)

    @classmethod
    def _of_tree(cls, tree: Mapping[str, Any]) -> Self:
        shares = tree["unbiased"] or tree["frequencies"]
        return cls(
            tree["first"], tree["last"] - tree["first"] + 1, shares, tree["standard_errors"], tree["devices"]
        )

    @property
    def number(self) -> int:
        """The number of its window."""
        return self.first // self.length


_USED = ("first", "last", "unbiased", "frequencies", "standard_errors", "devices")


def smooth(releases: Sequence[Release], histories: Sequence[Sequence[ReleasedShares]]) -> list[Release]:
    """Releases of one window, each with its smoothed frequencies; `histories` are the earlier releases of each.

    Earlier releases of another length or another number of states are left out, as are those of windows too long ago.
    """
    if not releases:
        return []
    import numpy as np  # noqa: PLC0415  # not before the first release

    from hushmq.pufferfish.inference.share_filter import filtered  # noqa: PLC0415  # as above

    columns = [
        _usable(ReleasedShares.of(one), earlier) for one, earlier in zip(releases, histories, strict=True)
    ]
    # Of two states one says all: the shares of both add up to one.
    states = [1] if len(releases[0].states) == 2 else list(range(len(releases[0].states)))
    newest = columns[0][-1].number
    reach = newest - min(column[0].number for column in columns) + 1
    shape = (len(releases), len(states), reach)
    shares, variances, devices = np.zeros(shape), np.full(shape, np.inf), np.ones(shape)
    for row, column in enumerate(columns):
        for one in column:
            at = reach - 1 - (newest - one.number)
            shares[row, :, at] = [one.shares[state] for state in states]
            variances[row, :, at] = [one.errors[state] ** 2 for state in states]
            devices[row, :, at] = one.devices
    flat = (len(releases) * len(states), reach)
    # One window has one length, one stride, and is priced under one Θ.
    priors = [prior for _ in releases for prior in _priors(releases[0], states)]
    found = filtered(shares.reshape(flat), variances.reshape(flat), priors, devices.reshape(flat))
    by_release = (each.reshape(shape[:2]).tolist() for each in (found.share, found.low, found.high))
    return [_with(one, *ends) for one, *ends in zip(releases, *by_release, strict=True)]


def _usable(newest: ReleasedShares, earlier: Sequence[ReleasedShares]) -> list[ReleasedShares]:
    """The earlier releases that are comparable with the newest, and it, in the order of their windows."""
    kept = [
        one
        for one in earlier
        if one.length == newest.length
        and len(one.shares) == len(newest.shares)
        and newest.number - LONGEST < one.number < newest.number
    ]
    return [*sorted(kept, key=lambda one: one.number), newest]


def _priors(release: Release, states: Sequence[int]) -> list[SharePrior]:
    """What Θ says of the share of each state in a window as long as this one."""
    ticks = (release.last - release.first + 1) * release.stride
    theta = release.theta
    if isinstance(theta, RegimeThetaMessage):
        return [regime_prior(theta.chains, ticks=ticks, state=state) for state in states]
    if isinstance(theta, BinaryThetaMessage):
        rates: Sequence[StateRates] = binary_rates((theta.q.low, theta.q.high), (theta.r.low, theta.r.high))
    else:
        rates = categorical_rates(theta.low, theta.high)
    return [share_prior(rates[state], ticks=ticks) for state in states]


@lru_cache(maxsize=256)
def regime_prior(theta: RegimeTheta, *, ticks: int, state: int) -> SharePrior:
    """That of a Θ of listed chains with regimes."""
    from hushmq.pufferfish.regimes.regime_noise import window_moments  # noqa: PLC0415  # numpy: for regimes only

    return listed_prior(
        [
            (member.ones if state else 1.0 - member.ones, *window_moments(member, ticks))
            for member in theta.members
        ]
    )


def _with(release: Release, shares: list[float], low: list[float], high: list[float]) -> Release:
    if len(release.states) == 2:
        shares, low, high = [1 - shares[0], *shares], [1 - high[0], *low], [1 - low[0], *high]
    smoothed = nearest_distribution(shares)
    intervals = tuple((min(a, one), max(b, one)) for a, b, one in zip(low, high, smoothed, strict=True))
    return release.model_copy(update={"smoothed": smoothed, "smoothed_intervals": intervals})
