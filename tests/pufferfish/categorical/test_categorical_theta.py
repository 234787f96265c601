"""Θ of k states promises nothing against an adversary for whom no bound is proved."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from tests.pufferfish.categorical.test_transition_intervals import THREE

THETA = CategoricalTheta.point(THREE)


@pytest.mark.parametrize(
    "price",
    [
        lambda: THETA.timeline("informed"),
        lambda: THETA.constant_loss(0.1, 0.1, "informed"),
        lambda: THETA.largest_tilts(1.0, "informed"),
        lambda: THETA.window_limit("least-noise", 1.0, "informed"),
        lambda: THETA.window_tilt("least-noise", 1.0, "informed"),
    ],
)
def test_nothing_is_priced_against_the_informed_adversary(price: Callable[[], object]) -> None:
    """Whatever is asked for is refused; the number for the weaker adversary is never returned in its place."""
    with pytest.raises(ValueError, match="undecided adversary, not the informed"):
        price()
