"""The value all mechanisms answer with, and the settings they all take."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hushmq.pufferfish.quilt.laplace_scale import NO_QUILT, LaplaceScale, require_epsilon, require_length


def test_a_scale_is_a_value() -> None:
    """Equal by content, never changed, without a quilt unless one is given."""
    scale = LaplaceScale("entry", 2.0)
    assert scale == LaplaceScale("entry", 2.0, NO_QUILT)
    with pytest.raises(dataclasses.FrozenInstanceError):
        scale.scale = 1.0


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_that_promises_nothing_is_refused(epsilon: float) -> None:
    """Only a positive, finite ε is a promise."""
    with pytest.raises(ValueError, match=r"epsilon is .* positive, finite"):
        require_epsilon(epsilon)


@pytest.mark.parametrize("length", [0, -3])
def test_a_stream_without_instants_is_refused(length: int) -> None:
    """A length is at least 1, or None for no end."""
    require_length(None)
    require_length(1)
    with pytest.raises(ValueError, match=f"length is {length}"):
        require_length(length)
