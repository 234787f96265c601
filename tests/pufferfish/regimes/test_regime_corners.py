"""Boxes of chains with two regimes: their certified loss against linear programs over all likelihoods."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from hushmq.__main__ import main
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.regimes.product_tilt import product_loss
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_corners import RegimeCorners
from hushmq.pufferfish.regimes.regime_tilts import loss
from tests.pufferfish.regimes.test_regimes import N10, forgetful, worst_likelihood

SHORT = RegimeCorners((0.1, 0.15), (0.05, 0.1), ((0.1, 0.2), (0.4, 0.5)), ((0.4, 0.5), (0.1, 0.2)))
WIDE = RegimeCorners((0.02, 0.3), (0.05, 0.4), ((0.05, 0.3), (0.3, 0.6)), ((0.3, 0.6), (0.05, 0.3)))
REGIONS = (SHORT, WIDE, RegimeCorners.around(N10, 0.1))


@pytest.mark.parametrize("intervals", REGIONS)
@pytest.mark.parametrize("tilts", [(0.3, 0.3), (1.0, 0.2)])
def test_no_likelihood_of_any_chain_between_the_corners_loses_more(
    intervals: RegimeCorners, tilts: tuple[float, float]
) -> None:
    """Whatever is published with these tilts: at corners and at random chains inside, for every tick and direction."""
    bound = max(intervals.directed_losses(*tilts))
    rng = np.random.default_rng(3)
    places = [*(rng.integers(2, size=(3, 6)).tolist()), *(rng.random((3, 6)).tolist())]
    found = [worst_likelihood(intervals.chain_at(place), [tilts] * 5) for place in places]
    assert max(found) <= bound


def test_no_likelihood_loses_more_with_a_stride() -> None:
    """Secrets at published ticks and at those between them."""
    tilts = [(0.8, 0.8) if tick % 3 == 1 else (0.0, 0.0) for tick in range(6)]
    bound = max(SHORT.directed_losses(0.8, 0.8, 3))
    rng = np.random.default_rng(4)
    assert (
        max(worst_likelihood(SHORT.chain_at(place), tilts) for place in rng.random((4, 6)).tolist()) <= bound
    )
    assert max(worst_likelihood(one, tilts) for one in SHORT.corners[::21]) <= bound


@pytest.mark.parametrize("intervals", REGIONS)
def test_every_corner_is_within_the_bound(intervals: RegimeCorners) -> None:
    """The certified loss of an endless stream of each corner, and of chains inside, is no more than the box's."""
    bound = max(intervals.directed_losses(0.5, 0.5))
    rng = np.random.default_rng(5)
    chains = [*intervals.corners[::7], *map(intervals.chain_at, rng.random((6, 6)).tolist())]
    assert max(loss(one, 0.5, 0.5) for one in chains) <= bound
    assert len(intervals.corners) == 64


def test_a_bound_that_is_a_little_low_is_caught() -> None:
    """Noise attains the loss of an MTP2 chain: that of a corner is within 1% of a narrow box's bound, that of a single
    chain within 1e-5, with a stride as well.
    """
    chain = forgetful(0.97, 0.2, 0.8)
    narrow = RegimeCorners.around(chain, 0.0)
    for stride in (1, 4):
        attained = product_loss(chain, 0.4, 0.4, stride)
        assert attained <= max(narrow.directed_losses(0.4, 0.4, stride)) <= attained * (1 + 1e-5)
    low, high, change = (0.1998, 0.2), (0.7998, 0.8), (0.0299, 0.0301)
    intervals = RegimeCorners(change, change, (low, high), (high, low))
    bound = max(intervals.directed_losses(0.4, 0.4))
    attained = max(product_loss(one, 0.4, 0.4) for one in intervals.corners)
    assert 0.99 * bound < attained <= bound


def test_the_odds_are_extreme_at_two_corners() -> None:
    """No chain inside has fewer or more ones."""
    middle = WIDE.chain_at([0.5] * 6).ones
    rng = np.random.default_rng(6)
    found = [WIDE.chain_at(place).ones for place in rng.random((200, 6)).tolist()]
    found += [corner.ones for corner in WIDE.corners]
    odds = [math.log(one / (1 - one)) - math.log(middle / (1 - middle)) for one in found]
    most, fewest = WIDE.odds_below
    assert max(odds) == pytest.approx(most)
    assert -min(odds) == pytest.approx(fewest)


def test_an_interval_covers_regimes_of_any_law_for_the_undecided_adversary() -> None:
    """Two or three regimes with chains inside an interval Θ, however long they last: no likelihood loses more than Θ's
    price against the undecided adversary, and some lose more than its price against the prior one.
    """
    theta = BinaryTheta(0.1, 0.4, 0.1, 0.4)
    undecided, prior = (theta.constant_loss(0.1, 0.1, one) for one in ("undecided", "prior"))
    rng = np.random.default_rng(7)
    for count in (2, 2, 3):
        transition = rng.dirichlet([0.3] * count, size=count) + 1e-3
        transition /= transition.sum(axis=1, keepdims=True)
        chain = RegimeChain.of(
            transition.tolist(), [tuple(one) for one in rng.uniform(0.1, 0.4, (count, 2)).tolist()]
        )
        assert worst_likelihood(chain, [(0.1, 0.1)] * 6) <= undecided
    slow = RegimeChain.of([[0.9999, 0.0001], [0.0001, 0.9999]], [(0.1, 0.4), (0.4, 0.1)])
    assert prior < product_loss(slow, 0.1, 0.1) <= undecided


def test_regimes_must_be_in_order() -> None:
    """Without order the odds have no known corner; beyond two regimes there are no boxes."""
    with pytest.raises(ValueError, match="in order"):
        RegimeCorners((0.1, 0.2), (0.1, 0.2), ((0.1, 0.5), (0.4, 0.5)), ((0.4, 0.5), (0.1, 0.2)))
    with pytest.raises(ValueError, match="inside"):
        RegimeCorners((0.0, 0.2), (0.1, 0.2), ((0.1, 0.2), (0.4, 0.5)), ((0.4, 0.5), (0.1, 0.2)))


def test_the_command_prices_all_chains_around_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--within 0` is the chain itself; more percent cost more; the option is for regimes alone."""
    file = tmp_path / "regimes.json"
    chains = [{"q": q, "r": r} for q, r in N10.chains]
    file.write_text(json.dumps({"regimes": {"transition": N10.transition, "chains": chains}}))
    asked = [
        "price",
        "--regimes",
        str(file),
        "--rho0",
        "0.3",
        "--rho1",
        "0.3",
        "--adversary",
        "prior",
        "--json",
    ]
    found = []
    for more in ([], ["--within", "0"], ["--within", "10"]):
        assert main([*asked, *more]) == 0
        found.append(json.loads(capsys.readouterr().out)["epsilon"])
    assert found[0] == pytest.approx(found[1], rel=1e-6)
    assert found[2] > 1.01 * found[1]
    assert main([*asked, "--within", "-3"]) == 2
    wrong = ["price", "--q", "0.1", "--r", "0.1", "--rho0", "0.3", "--rho1", "0.3", "--within", "5"]
    assert main(wrong) == 2
    assert "--within: it is for --regimes" in capsys.readouterr().err
