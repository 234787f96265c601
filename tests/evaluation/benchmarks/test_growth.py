"""The fitted exponent is that of the law, and a quadratic one is told from a linear one."""

from __future__ import annotations

import pytest

from hushmq.evaluation.benchmarks.growth import exponent, growth_row


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5, 2.0])
def test_a_power_law_is_recovered(power: float) -> None:
    """Three sizes are enough where the law is exact."""
    assert exponent({n: 3e-4 * n**power for n in (1_000, 3_000, 10_000)}) == pytest.approx(power)


def test_a_row_shows_what_it_was_fitted_to() -> None:
    """Sizes and times stand beside the exponent."""
    row = growth_row("close", {10: 0.1, 20: 0.2, 40: 0.4}, aim="linear")
    assert (row.name, row.aim) == ("close: growth", "linear")
    assert row.against == "10: 100 ms, 20: 200 ms, 40: 400 ms"


def test_two_sizes_are_no_law() -> None:
    """They would fit any."""
    with pytest.raises(ValueError, match="at least 3"):
        exponent({1: 1.0, 2: 2.0})
