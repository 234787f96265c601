"""Noise on several numbers at once: the law and its price by enumeration, the sampler by the law."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest

from hushmq.pufferfish.noise import joint_noise as together
from hushmq.pufferfish.noise.joint_noise import differences, draw_joint_noise, level_shares, mean_square
from tests.pufferfish.sampling import distance, plausible, stray

REACHES = [(1,), (1, 2), (1, 2, 6), (1, 2, 6, 18, 54)]
TILTS = [Fraction(3, 10), Fraction(412_345_678, 10**9), Fraction(2), Fraction(7)]
DRAWS = 4_600


def level(x: tuple[int, ...], sensitivities: tuple[int, ...]) -> int:
    """The least m with |x_g| ≤ a_g·m for all g."""
    return max(-(-abs(one) // most) for one, most in zip(x, sensitivities, strict=True))


def volume(m: int, sensitivities: tuple[int, ...]) -> int:
    return math.prod(2 * most * m + 1 for most in sensitivities)


def level_law(sensitivities: tuple[int, ...], tilt: float) -> list[float]:
    """P(m) ∝ V(m)·e^(−tilt·m), of the level within which x is uniform."""
    far = int(200 / tilt) + 20
    weights = [volume(m, sensitivities) * math.exp(-tilt * m) for m in range(far)]
    return [weight / sum(weights) for weight in weights]


@pytest.mark.slow
@pytest.mark.parametrize("sensitivities", [(1, 2), (1, 3), (2, 4, 1)])
def test_a_change_costs_the_tilt_and_no_more(sensitivities: tuple[int, ...]) -> None:
    """All vectors and all changes within reach: the level moves by at most one, and by one for some.

    Two changes move it by at most two. With P ∝ e^(−tilt·level) that is the price.
    """
    box = list(itertools.product(*(range(-5 * most, 5 * most + 1) for most in sensitivities)))
    changes = list(itertools.product(*({-most, -1, 0, 1, most} for most in sensitivities)))
    for times in (1, 2):
        moved = {
            level(tuple(a + times * b for a, b in zip(x, y, strict=True)), sensitivities)
            - level(x, sensitivities)
            for x in box
            for y in changes
        }
        assert (min(moved), max(moved)) == (-times, times)


@pytest.mark.parametrize("sensitivities", [(1,), (1, 2), (3, 2)])
@pytest.mark.parametrize("tilt", [0.7, 2.0])
def test_uniform_within_a_level_gives_the_law(sensitivities: tuple[int, ...], tilt: float) -> None:
    """Σ over m ≥ level(x) of P(m)/V(m) is proportional to e^(−tilt·level(x))."""
    law = level_law(sensitivities, tilt)
    for x in itertools.product(*(range(-4 * most, 4 * most + 1) for most in sensitivities)):
        weight = sum(law[m] / volume(m, sensitivities) for m in range(level(x, sensitivities), len(law)))
        first = sum(law[m] / volume(m, sensitivities) for m in range(len(law)))
        assert weight / first == pytest.approx(math.exp(-tilt * level(x, sensitivities)), rel=1e-9)


@pytest.mark.parametrize("sensitivities", REACHES)
def test_volumes_are_sums_of_binomials(sensitivities: tuple[int, ...]) -> None:
    """V(m) = Σ γ_j·C(m, j) with no negative γ_j."""
    gammas = differences(sensitivities)
    assert min(gammas) >= 0
    for m in range(12):
        assert sum(gamma * math.comb(m, j) for j, gamma in enumerate(gammas)) == volume(m, sensitivities)


@pytest.mark.parametrize("sensitivities", REACHES)
@pytest.mark.parametrize("tilt", TILTS)
def test_the_level_is_a_mixture_of_sums_of_geometric_draws(
    sensitivities: tuple[int, ...], tilt: Fraction
) -> None:
    """The law of j plus j+1 geometric draws, j as it is chosen, is the law of the level."""
    p = math.exp(-tilt)
    shares = level_shares(sensitivities, float(tilt))
    for m, wanted in enumerate(level_law(sensitivities, float(tilt))[:60]):
        found = sum(
            share * math.comb(m, j) * p ** (m - j) * (1 - p) ** (j + 1)
            for j, share in enumerate(shares)
            if j <= m
        )
        assert found == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("sensitivities", REACHES)
@pytest.mark.parametrize("tilt", [*TILTS, Fraction(1, 10**9), Fraction(60)])
def test_what_chooses_is_as_precise_as_it_says(sensitivities: tuple[int, ...], tilt: Fraction) -> None:
    """The sums of shares, rounded down to so many digits, are those of three times as many digits."""
    for digits in (20, 40):
        rough, fine = (
            together._cumulative_probabilities(sensitivities, tilt, digits),
            together._cumulative_probabilities(sensitivities, tilt, 3 * digits),
        )
        for edge, better in zip(rough, fine, strict=True):
            assert -1 < Fraction(better, 10 ** (2 * digits)) - edge < 2
    exact = list(itertools.accumulate(level_shares(sensitivities, float(tilt))))[:-1]
    assert [
        edge / 10**40 for edge in together._cumulative_probabilities(sensitivities, tilt, 40)
    ] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("after", [0, 10**40 - 1])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_a_draw_on_the_edge_is_decided_by_more_digits(
    after: int, off: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the first digits are those of a sum of shares, the next ones say on which side the draw is."""
    sensitivities, tilt = REACHES[-1], TILTS[1]
    first = together._cumulative_probabilities(sensitivities, tilt, 40)[3] + off
    script = [first, after]
    monkeypatch.setattr(together, "randbelow", lambda _: script.pop(0))
    edge = together._cumulative_probabilities(sensitivities, tilt, 80)[3]
    assert together._draw_component(sensitivities, tilt) == (3 if first * 10**40 + after < edge else 4)
    assert script == []


def test_a_draw_beyond_all_edges_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest draw chooses the largest j, the smallest the smallest."""
    monkeypatch.setattr(together, "randbelow", lambda bound: bound - 1)
    assert together._draw_component((1, 2), Fraction(1)) == 2
    monkeypatch.setattr(together, "randbelow", lambda _: 0)
    assert together._draw_component((1, 2), Fraction(1)) == 0


@pytest.mark.parametrize("sensitivities", REACHES)
@pytest.mark.parametrize("tilt", TILTS)
def test_the_mean_square_is_that_of_the_law(sensitivities: tuple[int, ...], tilt: Fraction) -> None:
    """Σ over levels of P(m)·(a·m)(a·m+1)/3, the mean square of a uniform draw from −a·m … a·m."""
    law = level_law(sensitivities, float(tilt))
    for of, most in enumerate(sensitivities):
        wanted = sum(p * most * m * (most * m + 1) / 3 for m, p in enumerate(law))
        assert mean_square(sensitivities, float(tilt), of=of) == pytest.approx(wanted, rel=1e-9)


def law_of(sensitivities: tuple[int, ...], tilt: float, of: int) -> Callable[[int], float]:
    """P(|x_g| ≤ size)."""
    law, most = level_law(sensitivities, tilt), sensitivities[of]
    return lambda size: sum(
        p * min(1.0, (2 * size + 1) / (2 * most * m + 1)) for m, p in enumerate(law) if size >= 0
    )


@pytest.mark.slow
@pytest.mark.parametrize("tilt", TILTS[:3])
def test_the_draws_follow_the_law_and_30_percent_off_is_rejected(tilt: Fraction) -> None:
    """Levels and sizes against their laws, signs against a fair coin; a tilt that is 30% off does not pass."""
    sensitivities = (1, 2, 6)
    drawn = [draw_joint_noise(sensitivities, tilt) for _ in range(DRAWS)]
    for of in range(len(sensitivities)):
        sizes = [abs(x[of]) for x in drawn]
        assert distance(sizes, law_of(sensitivities, float(tilt), of)) <= stray(DRAWS)
        assert plausible(sum(x[of] < 0 for x in drawn), sum(x[of] != 0 for x in drawn), 0.5)
    for wrong in (0.7, 1.3):
        assert distance([abs(x[2]) for x in drawn], law_of(sensitivities, float(tilt) * wrong, 2)) > stray(
            DRAWS
        )


@pytest.mark.parametrize(
    ("sensitivities", "tilt"),
    [((1, 2), Fraction(0)), ((1, 2), Fraction(-1)), ((), Fraction(1)), ((1, 0), Fraction(1))],
)
def test_reaches_and_tilt_must_be_positive(sensitivities: tuple[int, ...], tilt: Fraction) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ValueError, match=r"^tilt is .* and sensitivities are .*; all must be positive"):
        draw_joint_noise(sensitivities, tilt)
