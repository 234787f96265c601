"""SWC's and WSC's tables against closed forms and against their theorems."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from hushmq.evaluation.papers import swc_synthetic as synthetic
from hushmq.evaluation.papers import wsc_five_states as wsc
from hushmq.evaluation.sections.compared_methods import simulated_error
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.quilt.markov_quilt import exact
from tests.evaluation.conftest import Result
from tests.recordings import needs_data


def test_simulated_errors_have_their_expectation() -> None:
    """Mean L1 error is bins·scale·lipschitz, and a scale 10% off is noticed."""
    found = simulated_error(3.0, lipschitz=0.5, bins=4, draws=40_000, rng=np.random.default_rng(1))
    assert found == pytest.approx(4 * 3.0 * 0.5, rel=0.01)
    assert simulated_error(None, lipschitz=1, bins=2, draws=1, rng=np.random.default_rng(1)) is None


class TestSynthetic:
    """SWC Figure 4, upper row."""

    @pytest.mark.slow
    def test_scales(self, quick: Callable[..., Result]) -> None:
        """Methods are in the order that theorems give, above the lower bound; GK16 applies at α = .4 alone.

        Ours also covers kernels that change in time and known states, which at α = .4 costs it 2% against MQMExact.
        """
        rows = quick("synthetic").table("errors")
        assert len(rows) == 9
        for row in rows:
            scale = {name.removesuffix(": scale"): value for name, value in row.items() if "scale" in name}
            assert scale["GroupDP"] == pytest.approx(100 / row["ε"])
            assert (
                scale["limit"]
                <= scale["tilted quilt"]
                < scale["MQMExact"] * (1.03 if row["α"] == 0.4 else 1.0)
                < scale["MQMApprox"]
                < scale["GroupDP"]
            )
            assert (scale["GK16"] is not None) == (row["α"] == 0.4)
            # 50 draws of |Laplace|: a standard error of a seventh.
            assert row["tilted quilt: error"] == pytest.approx(scale["tilted quilt"] / 100, rel=0.6)

    @pytest.mark.parametrize("epsilon", synthetic.EPSILONS)
    def test_ours_covers_the_class_and_no_more(self, epsilon: float) -> None:
        """At its scale the loss over Θ is ε; at a scale 1% smaller it is above."""
        theta, tau = BinaryTheta(0.2, 0.8, 0.2, 0.8), 1 / synthetic.tilted(0.2, epsilon)
        assert loss(theta, tau0=tau, tau1=tau) == pytest.approx(epsilon, rel=1e-6)
        assert loss(theta, tau0=1.01 * tau, tau1=1.01 * tau) > epsilon

    @pytest.mark.parametrize("epsilon", synthetic.EPSILONS)
    def test_ours_covers_every_start(self, epsilon: float) -> None:
        """By enumeration of all paths: a count with noise 1/τ loses at most ε at any instant, whatever the start.

        These are chains that do not change; the price is also for those that do.
        """
        alpha, length = 0.25, 8
        tau = 1 / synthetic.tilted(alpha, epsilon)
        paths = np.array(list(itertools.product((0, 1), repeat=length)))
        worst = 0.0
        for q, r in itertools.product((alpha, 0.5, 1 - alpha), repeat=2):
            P = np.array([[1 - q, q], [r, 1 - r]])
            steps = P[paths[:, :-1], paths[:, 1:]].prod(axis=1)
            for first in (0.001, 0.03, 0.2, 0.5, 0.8, 0.97, 0.999):
                law = steps * np.where(paths[:, 0] == 0, first, 1 - first)
                # Far above, or far below, every count: the outputs that tell most; alternating ones for q+r > 1.
                for signs in (np.ones(length), (-1.0) ** np.arange(length)):
                    for way in (tau, -tau):
                        weight = np.exp(way * (paths * signs).sum(axis=1))
                        for i in range(length):
                            one = paths[:, i] == 1
                            odds = (weight * law)[one].sum() / (weight * law)[~one].sum()
                            prior = law[one].sum() / law[~one].sum()
                            worst = max(worst, abs(np.log(odds / prior)))
        assert 0.8 * epsilon < worst <= epsilon

    def test_the_corners_decide(self) -> None:
        """A finer grid finds no worse chain for MQMExact than the corners."""
        for epsilon in synthetic.EPSILONS:
            coarse, fine = (
                exact(synthetic.grid(0.15, size), synthetic.T, epsilon, any_initial=True).scale
                for size in (2, 7)
            )
            assert fine == pytest.approx(coarse, rel=1e-9)


class TestWsc:
    """WSC Figure 2."""

    def test_the_chain_is_as_promised(self) -> None:
        """It is reversible, with the least probability and the eigengap that the mechanism is given."""
        chain = wsc.drawn(np.random.default_rng(3))
        assert chain.is_reversible()
        assert chain.stationary().min() >= wsc.PI
        assert chain.reversible_eigengap() == pytest.approx(wsc.GAP, rel=1e-9)

    @pytest.mark.slow
    def test_knowing_less_costs_more(self, quick: Callable[..., Result]) -> None:
        """The scale falls in ε, in π_min and in the gap; knowing the chain exactly costs less still."""
        rows = quick("wsc").table("errors")
        scales = {(row["π_min"], row["eigengap"], row["T"], row["ε"]): row["scale"] for row in rows}
        for epsilon in {row["ε"] for row in rows}:
            assert scales[0.05, 0.1, 5000, epsilon] < scales[0.01, 0.1, 5000, epsilon]
            assert scales[0.05, 0.1, 5000, epsilon] < scales[0.05, 0.05, 5000, epsilon]
        chain = wsc.drawn(np.random.default_rng(3))
        assert exact([chain], 5000, 1.0).scale <= scales[0.05, 0.1, 5000, 1.0]


class TestReal:
    """On the recordings."""

    pytestmark = needs_data

    @pytest.mark.slow
    def test_activity(self, quick: Callable[..., Result]) -> None:
        """Errors are in the papers' order, and near 4·2·scale over all minutes."""
        rows = {row["method"]: row for row in quick("activity").table("errors")}
        assert rows["GK16"]["aggregate"] is None
        ours, mqm, group = (rows[name] for name in ("tilted quilt", "MQMExact", "GroupDP"))
        assert ours["aggregate"] < mqm["aggregate"] < group["aggregate"]
        assert ours["individual"] < mqm["individual"] < group["individual"]
        assert ours["aggregate"] == pytest.approx(8 * 302.76 / 103_279, rel=0.35)

    @pytest.mark.slow
    def test_power(self, quick: Callable[..., Result]) -> None:
        """As the scale of THEORY's chain: 51·2·scale over all minutes."""
        rows = {row["method"]: row["ε = 1"] for row in quick("power").table("errors")}
        assert rows["tilted quilt"] == pytest.approx(102 * 143.35 / 2_049_258, rel=0.15)
        assert rows["MQMExact"] == pytest.approx(102 * 543.3 / 2_049_258, rel=0.15)

    @pytest.mark.slow
    def test_runtime(self, quick: Callable[..., Result]) -> None:
        """Every method has a time wherever it has an answer."""
        for row in quick("runtime").table("seconds"):
            for task in ("synthetic", "activity", "power"):
                assert (row[task] is None) == (row["method"] == "GK16" and task != "synthetic")

    @pytest.mark.slow
    def test_limit(self, quick: Callable[..., Result]) -> None:
        """Only entry-DP is below the lower bound, and with two states the tilted quilt attains it."""
        rows = quick("limit").table("ratios")
        assert len(rows) == 4 * 5
        for row in rows:
            assert 1 - 1e-9 <= row["tilted quilt"] < row["MQMExact"] < row["MQMApprox"]
            assert row["entry-DP"] < 1
            if "2 states" in row["chain"]:
                assert row["tilted quilt"] == pytest.approx(1, abs=1e-6)
            else:
                assert row["tilted quilt"] < 1.1
