"""Binary chains: the stated figures, both ways, both adversaries, boxes."""

from __future__ import annotations

import math

import pytest

from pufferfish.binary import Box, Noise, limits, loss, optimal_noise


def recursion(q: float, r: float, tau: float, ticks: int = 4000) -> float:
    """The loss favouring 0 by iterating C ← (m·C·(1−q)+q)/(m·C·r+1−r)."""
    m, c = math.exp(tau), 1.0
    for _ in range(ticks):
        c = (m * c * (1 - q) + q) / (m * c * r + 1 - r)
    return tau + 2 * math.log(c)


@pytest.mark.parametrize(("q", "r"), [(0.0893, 0.1092), (0.2, 0.2), (0.028, 0.402), (0.01, 0.9), (0.5, 0.5)])
@pytest.mark.parametrize("tau", [0.001, 0.1, 1.0, 4.0])
def test_prior_closed_form_is_the_limit_of_the_recursion(q: float, r: float, tau: float) -> None:
    """The closed form agrees with the recursion to 1e-9 and is not below it."""
    true = max(recursion(q, r, tau), recursion(r, q, tau))
    got = loss(Box.point(q, r), tau0=tau, tau1=tau, adversary="prior")
    assert true <= got <= true + 1e-9


@pytest.mark.parametrize(
    ("q", "r", "epsilon", "informed"),
    [(0.2, 0.2, 4.0, 4.4109), (0.028, 0.402, 3.677, 6.2363), (0.0893, 0.1092, 4.0, 4.6812)],
)
def test_what_noise_for_the_prior_adversary_is_worth(
    q: float, r: float, epsilon: float, informed: float
) -> None:
    """CGSSY's optimal noise keeps ε against the prior adversary and not against the informed one."""
    theta = Box.point(q, r)
    noise = optimal_noise(theta, epsilon, "prior")
    assert loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary="prior") == pytest.approx(
        epsilon, abs=1e-9
    )
    assert loss(theta, tau0=noise.tau0, tau1=noise.tau1) == pytest.approx(informed, abs=5e-5)


def test_the_stated_noise() -> None:
    """q=.0893, r=.1092, ε=1: (.4834, .4593) against the prior adversary, (.4818, .4612) against the informed."""
    theta = Box.point(0.0893, 0.1092)
    prior, informed = optimal_noise(theta, 1.0, "prior"), optimal_noise(theta, 1.0)
    assert (prior.rho0, prior.rho1) == pytest.approx((0.4834, 0.4593), abs=5e-5)
    assert (informed.rho0, informed.rho1) == pytest.approx((0.4818, 0.4612), abs=5e-5)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize(
    "theta",
    [Box.point(0.0893, 0.1092), Box.point(0.9, 0.7), Box(0.1, 0.3, 0.2, 0.25), Box(0.3, 0.7, 0.4, 0.6)],
)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
def test_limits_keep_epsilon_and_are_the_largest(adversary: str, theta: Box, epsilon: float) -> None:
    """At the limits the loss is ε at most; with a tilt 0.01% larger in both it is above ε."""
    tau0, tau1 = limits(theta, epsilon, adversary)
    assert epsilon - 1e-9 <= loss(theta, tau0=tau0, tau1=tau1, adversary=adversary) <= epsilon
    assert loss(theta, tau0=tau0 * 1.0001, tau1=tau1 * 1.0001, adversary=adversary) > epsilon


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(0.0, 0.1, 0.1, 0.2), r"^Θ: q is \[0.0, 0.1\]"),
        (lambda: Box(0.2, 0.1, 0.1, 0.2), r"^Θ: q is"),
        (lambda: Box(0.1, 0.2, 0.1, 1.0), r"^Θ: r is"),
        (lambda: Box.point(math.nan, 0.1), r"^Θ: q is"),
        (lambda: Box.point(0.1, 0.1).intersect(Box.point(0.2, 0.1)), r"no chain in common"),
        (lambda: Noise(0.0, 0.1), r"^rho0 is 0.0"),
        (lambda: Noise(0.1, math.nan), r"^rho1 is nan"),
        (lambda: Noise(0.5, 0.5), r"^rho0 \+ rho1 is 1.0"),
        (lambda: loss(Box.point(0.1, 0.1), tau0=-1.0, tau1=0.0), r"^tau0 is -1.0"),
        (lambda: loss(Box.point(0.1, 0.1), tau0=0.0, tau1=math.inf), r"^tau1 is inf"),
        (lambda: limits(Box.point(0.1, 0.1), 0.0), r"^epsilon is 0.0"),
        (lambda: limits(Box.point(0.1, 0.1), 1.0, "nobody"), r"^adversary is 'nobody'"),
        (lambda: optimal_noise(Box.point(0.1, 0.1), 1.0, weights=(0.0, 0.0)), r"^weights are"),
    ],
)
def test_bad_values_are_named(make, message: str) -> None:
    """Each bad value is refused with one message naming it."""
    with pytest.raises(ValueError, match=message):
        make()
