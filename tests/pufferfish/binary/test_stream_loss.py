"""Binary chains: published figures, losses and inverses, both adversaries, several chains; checked to sixty digits."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary import alternating
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.known_instant import known_state_log_ratio, most_informative_instant
from hushmq.pufferfish.binary.stream_loss import endless_side_log_ratio, largest_tilts, loss, optimal_noise
from hushmq.pufferfish.mobius.ratio_orbit import orbit_of

ADVERSARIES: tuple[Adversary, Adversary] = ("prior", "informed")

chances = st.floats(0.02, 0.97)
tilts = st.floats(1e-6, 8.0)


def recursion(q: float, r: float, tau: float, ticks: int = 4000) -> float:
    """The loss favouring 0 by iterating C ← (m·C·(1−q)+q)/(m·C·r+1−r)."""
    m, c = math.exp(tau), 1.0
    for _ in range(ticks):
        c = (m * c * (1 - q) + q) / (m * c * r + 1 - r)
    return tau + 2 * math.log(c)


def exact_loss(q: float, r: float, tau: tuple[float, float], adversary: Adversary) -> Decimal:
    """The endless loss of one chain to sixty digits, from the recursions alone: nothing known, every instant known.

    Far more ticks than the chain remembers; known instants up to a distance where they tell nothing any more.
    """
    worst = Decimal(0)
    with localcontext() as context:
        context.prec = 60
        for a, b, own, other in ((q, r, *tau), (r, q, tau[1], tau[0])):
            out, back = Decimal(a), Decimal(b)
            m, n = Decimal(own).exp(), Decimal(other).exp()
            memory = abs(1 - out - back)
            alpha = (out * back / ((1 - out) * (1 - back))).sqrt()
            rate = abs((1 - alpha) / (1 + alpha))
            ticks = 4 if rate == 0 else 10 + math.ceil(50 / -math.log(rate))

            def step(x: Decimal, out: Decimal = out, back: Decimal = back) -> Decimal:
                return ((1 - out) * x + out) / (back * x + 1 - back)

            def gain(distance: int, m: Decimal = m, n: Decimal = n, flips: bool = a + b > 1) -> Decimal:
                return 1 / n if flips and distance % 2 else m

            ratio = Decimal(1)
            for distance in range(2 * ticks, 0, -1):
                ratio = step(gain(distance) * ratio)
            best = ratio.ln()
            for known, state in itertools.product(range(1, ticks), (0, 1)) if adversary == "informed" else ():
                # The step next to the known instant, then the tilted ones.
                ratio = (1 - out) / back if state == 0 else out / (1 - back)
                base = ratio
                for distance in range(known - 1, 0, -1):
                    ratio, base = step(gain(distance) * ratio), step(base)
                best = max(best, (ratio / base).ln())
                if memory == 0:
                    break
            worst = max(worst, Decimal(own) + 2 * best)
    return worst


@settings(max_examples=40, deadline=None)
@given(q=chances, r=chances, tau0=tilts, tau1=tilts)
def test_prior_losses_are_certified(q: float, r: float, tau0: float, tau1: float) -> None:
    """The prior loss is not below sixty exact digits and above them by rounding only; both signs of q+r−1."""
    exact = exact_loss(q, r, (tau0, tau1), "prior")
    got = Decimal(loss(BinaryTheta.point(q, r), tau0=tau0, tau1=tau1, adversary="prior"))
    assert exact <= got <= exact + Decimal("1e-12") * (1 + exact)


@pytest.mark.parametrize(
    ("q", "r"), [(0.2, 0.2), (0.3, 0.05), (0.1, 0.5), (0.6, 0.3), (0.8, 0.7), (0.9, 0.4)]
)
@pytest.mark.parametrize("tau", [(0.001, 0.002), (0.3, 0.1), (2.0, 5.0)])
def test_informed_losses_are_certified(q: float, r: float, tau: tuple[float, float]) -> None:
    """The informed loss is not below sixty exact digits over every known instant, and within 1e-9 of them."""
    exact = exact_loss(q, r, tau, "informed")
    got = Decimal(loss(BinaryTheta.point(q, r), tau0=tau[0], tau1=tau[1]))
    assert exact <= got <= exact + Decimal("1e-9")


@settings(max_examples=60, deadline=None)
@given(q=chances, r=chances, tau=st.floats(1e-4, 8.0))
def test_known_instants_in_a_run_rise_and_fall_once(q: float, r: float, tau: float) -> None:
    """Lemma 4: V has one peak for one state, none but its ends for the other, and the peak is found."""
    assume(q + r < 0.98)
    tilted, base = orbit_of(q, r, tau), orbit_of(q, r, 0.0)
    distance, state = most_informative_instant(tilted, base)
    ahead = max(2 * distance, 60)
    told = [known_state_log_ratio(tilted, base, away, state) for away in range(1, ahead)]
    other = [known_state_log_ratio(tilted, base, away, 1 - state) for away in range(1, ahead)]
    assert max(told) <= told[distance - 1] + 1e-14
    rounding = 1e-13 * (1 + abs(math.log(tilted.fixed_point)))
    assert all(b >= a - rounding for a, b in itertools.pairwise(told[:distance]))
    assert all(b <= a + rounding for a, b in itertools.pairwise(told[distance - 1 :]))
    assert max(other) <= math.log(tilted.fixed_point) + rounding


@settings(max_examples=60, deadline=None)
@given(q=chances, r=chances, tau=st.floats(1e-3, 5.0), share=st.floats(0.01, 0.5))
def test_one_side_falls_in_q_and_in_r(q: float, r: float, tau: float, share: float) -> None:
    """Theorem 6 on endless streams, q+r < 1, prior adversary."""
    wider = q + share * (1.0 - q - r)
    assume(q + r < 0.98 and wider > q)
    assert endless_side_log_ratio(wider, r, tau, "prior") <= endless_side_log_ratio(q, r, tau, "prior") + 1e-9
    assert endless_side_log_ratio(r, wider, tau, "prior") <= endless_side_log_ratio(r, q, tau, "prior") + 1e-9


@settings(max_examples=30, deadline=None)
@given(q=chances, r=chances, tau0=st.floats(1e-3, 5.0), tau1=st.floats(1e-3, 5.0), share=st.floats(0.01, 0.5))
def test_one_side_rises_in_q_and_in_r_beyond_one(
    q: float, r: float, tau0: float, tau1: float, share: float
) -> None:
    """Theorem 6, q+r > 1, prior adversary."""
    wider = q + share * (1.0 - q)
    assume(q + r > 1.02 and wider < 0.98)
    ratio = alternating.endless_ratio
    assert ratio(wider, r, tau0, tau1) >= ratio(q, r, tau0, tau1) * (1 - 1e-9)
    assert ratio(r, wider, tau0, tau1) >= ratio(r, q, tau0, tau1) * (1 - 1e-9)


@pytest.mark.parametrize(("q", "r"), [(0.0893, 0.1092), (0.2, 0.2), (0.028, 0.402), (0.01, 0.9), (0.5, 0.5)])
@pytest.mark.parametrize("tau", [0.001, 0.1, 1.0, 4.0])
def test_prior_closed_form_is_the_limit_of_the_recursion(q: float, r: float, tau: float) -> None:
    """The closed form agrees with the recursion to 1e-9 and is not below it."""
    true = max(recursion(q, r, tau), recursion(r, q, tau))
    got = loss(BinaryTheta.point(q, r), tau0=tau, tau1=tau, adversary="prior")
    assert true <= got <= true + 1e-9


@pytest.mark.parametrize(
    ("q", "r", "epsilon", "informed"),
    [(0.2, 0.2, 4.0, 4.4109), (0.028, 0.402, 3.677, 6.2363), (0.0893, 0.1092, 4.0, 4.6812)],
)
def test_what_noise_for_the_prior_adversary_is_worth(
    q: float, r: float, epsilon: float, informed: float
) -> None:
    """CGSSY's optimal noise keeps ε against the prior adversary and not against the informed one."""
    theta = BinaryTheta.point(q, r)
    noise = optimal_noise(theta, epsilon, "prior")
    assert loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary="prior") == pytest.approx(
        epsilon, abs=1e-9
    )
    assert loss(theta, tau0=noise.tau0, tau1=noise.tau1) == pytest.approx(informed, abs=5e-5)


def test_the_stated_noise() -> None:
    """q=.0893, r=.1092, ε=1: (.4834, .4593) against the prior adversary, (.4818, .4612) against the informed."""
    theta = BinaryTheta.point(0.0893, 0.1092)
    prior, informed = optimal_noise(theta, 1.0, "prior"), optimal_noise(theta, 1.0)
    assert (prior.rho0, prior.rho1) == pytest.approx((0.4834, 0.4593), abs=5e-5)
    assert (informed.rho0, informed.rho1) == pytest.approx((0.4818, 0.4612), abs=5e-5)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(
    "theta",
    [
        BinaryTheta.point(0.0893, 0.1092),
        BinaryTheta.point(0.003, 0.001),
        BinaryTheta.point(0.9, 0.7),
        BinaryTheta(0.1, 0.3, 0.2, 0.25),
        BinaryTheta(0.3, 0.7, 0.4, 0.6),
    ],
)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
def test_limits_keep_epsilon_and_are_the_largest(
    adversary: Adversary, theta: BinaryTheta, epsilon: float
) -> None:
    """At the largest tilts the loss is at most ε; with both tilts 0.01% larger it is above ε."""
    tau0, tau1 = largest_tilts(theta, epsilon, adversary)
    assert epsilon - 1e-9 <= loss(theta, tau0=tau0, tau1=tau1, adversary=adversary) <= epsilon
    assert loss(theta, tau0=tau0 * 1.0001, tau1=tau1 * 1.0001, adversary=adversary) > epsilon


@settings(max_examples=60, deadline=None)
@given(q=chances, r=chances, epsilon=st.floats(0.01, 12.0))
def test_the_exact_inverse(q: float, r: float, epsilon: float) -> None:
    """Theorem 3: M from ε and ε from M are inverse to each other to 1e-9, for each direction alone."""
    assume(q + r < 0.999)
    tau0, tau1 = largest_tilts(BinaryTheta.point(q, r), epsilon, "prior")
    assert recursion(q, r, tau0, 300) <= epsilon
    assert loss(BinaryTheta.point(q, r), tau0=tau0, tau1=0.0, adversary="prior") == pytest.approx(
        epsilon, abs=1e-9
    )
    assert loss(BinaryTheta.point(q, r), tau0=0.0, tau1=tau1, adversary="prior") == pytest.approx(
        epsilon, abs=1e-9
    )


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.2), (0.05, 0.3), (0.7, 0.8)])
@pytest.mark.parametrize("weights", [None, (0.5, 0.5), (0.8, 0.2), (0.02, 0.98)])
def test_no_noise_on_a_grid_is_better(
    adversary: Adversary, q: float, r: float, weights: tuple[float, float] | None
) -> None:
    """Among noises with ρ ≤ 1/2 (or that of the crossing) within ε none has a smaller weighted error."""
    theta, epsilon = BinaryTheta.point(q, r), 1.5
    best = optimal_noise(theta, epsilon, adversary, weights)
    w0, w1 = weights or (1.0, 1.0)
    error = w0 * best.rho0 + w1 * best.rho1
    assert loss(theta, tau0=best.tau0, tau1=best.tau1, adversary=adversary) <= epsilon
    if q + r > 1.0 and weights is not None:
        return  # there the pair of limits, not the noise, is chosen
    for i, j in itertools.product(range(1, 50), repeat=2):
        rho0, rho1 = i / 100, j / 100
        noise = BinaryNoise(rho0, rho1)
        if w0 * rho0 + w1 * rho1 < error * 0.999:
            assert loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=adversary) > epsilon


def test_worst_corners() -> None:
    """The slowest chain on each side of q + r = 1."""
    for theta, corners in (
        (BinaryTheta(0.1, 0.3, 0.2, 0.25), [(0.1, 0.2)]),
        (BinaryTheta(0.7, 0.9, 0.6, 0.7), [(0.9, 0.7)]),
        (BinaryTheta(0.3, 0.9, 0.4, 0.7), [(0.3, 0.4), (0.9, 0.7)]),
    ):
        assert theta.worst_corners() == corners


@pytest.mark.parametrize(("adversary", "least"), [("prior", 0.998), ("informed", 0.97)])
def test_a_very_small_theta_costs_little_more_than_one_chain(adversary: Adversary, least: float) -> None:
    """Several chains close to the sleeper's allow 3% less tilt at ε=1 at most than that chain alone."""
    point, several = BinaryTheta.point(0.0893, 0.1092), BinaryTheta(0.0893, 0.09, 0.1092, 0.11)
    for one, other in zip(
        largest_tilts(point, 1.0, adversary), largest_tilts(several, 1.0, adversary), strict=True
    ):
        assert least * one < other < one


@pytest.mark.parametrize("tau", [0.0, 1e-12, 300.0, 900.0])
def test_extreme_tilts(tau: float) -> None:
    """No tilt costs nothing; huge tilts overflow nowhere and cost at least themselves."""
    for q, r in ((0.1, 0.2), (1e-9, 1e-6), (0.5, 0.5), (0.9, 0.8)):
        for adversary in ADVERSARIES:
            got = loss(BinaryTheta.point(q, r), tau0=tau, tau1=tau / 2, adversary=adversary)
            assert tau <= got < math.inf
            assert (got == 0.0) == (tau == 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BinaryTheta(0.0, 0.1, 0.1, 0.2), r"^Θ: q is \[0.0, 0.1\]"),
        (lambda: BinaryTheta(0.2, 0.1, 0.1, 0.2), r"^Θ: q is"),
        (lambda: BinaryTheta(0.1, 0.2, 0.1, 1.0), r"^Θ: r is"),
        (lambda: BinaryTheta.point(math.nan, 0.1), r"^Θ: q is"),
        (lambda: BinaryTheta.point(0.1, 0.1).intersect(BinaryTheta.point(0.2, 0.1)), r"no chain in common"),
        (lambda: BinaryNoise(0.0, 0.1), r"^rho0 is 0.0"),
        (lambda: BinaryNoise(0.1, math.nan), r"^rho1 is nan"),
        (lambda: BinaryNoise(0.5, 0.5), r"^rho0 \+ rho1 is 1.0"),
        (lambda: loss(BinaryTheta.point(0.1, 0.1), tau0=-1.0, tau1=0.0), r"^tau0 is -1.0"),
        (lambda: loss(BinaryTheta.point(0.1, 0.1), tau0=0.0, tau1=math.inf), r"^tau1 is inf"),
        (lambda: largest_tilts(BinaryTheta.point(0.1, 0.1), 0.0), r"^epsilon is 0.0"),
        (lambda: largest_tilts(BinaryTheta.point(0.1, 0.1), 1.0, "nobody"), r"^adversary is 'nobody'"),
        (lambda: optimal_noise(BinaryTheta.point(0.1, 0.1), 1.0, weights=(0.0, 0.0)), r"^weights are"),
    ],
)
def test_bad_values_are_named(make, message: str) -> None:
    """Each bad value is refused with one message naming it."""
    with pytest.raises(ValueError, match=message):
        make()
