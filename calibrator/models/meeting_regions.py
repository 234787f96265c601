"""Regions that may have chains in common, and what a region leaves of the policy's start."""

from __future__ import annotations

from typing import TypeVar

from hushmq.pufferfish.protocols import Region

R = TypeVar("R", bound=Region)


def common(one: R, other: R) -> R | None:
    """The chains in both; None where there are none."""
    try:
        return one.intersect(other)
    except ValueError:
        return None


def part_of_start(start: R, region: R, widened: R) -> R:
    """The part of a region that the start allows; the hull of both where even the widened region excludes the start."""
    return common(start, region) or common(start, widened) or start.hull(region)
