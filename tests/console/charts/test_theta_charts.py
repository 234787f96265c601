"""The pictures of Θ: of two states, of more, and of regimes; what is drawn is what is believed."""

from __future__ import annotations

from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.theta_message import theta_message
from hushmq.console.charts.chart import Band, Bars, Dots
from hushmq.console.charts.theta_charts import coverage_chart, moves, regime_chart, theta_chart
from hushmq.console.state.leaving_chances import leaving_chances, transition_table
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

BINARY = BinaryTheta(0.1, 0.2, 0.3, 0.4)
LOW = ((0.6, 0.1, 0.1), (0.1, 0.6, 0.1), (0.1, 0.1, 0.6))
HIGH = ((0.8, 0.3, 0.3), (0.3, 0.8, 0.3), (0.3, 0.3, 0.8))
THREE = CategoricalTheta.of(TransitionIntervals(LOW, HIGH), None)
SLOW = RegimeChain.of([[0.999, 0.001], [0.001, 0.999]], [(0.05, 0.4), (0.5, 0.05)])
QUICK = RegimeChain.of([[0.99, 0.01], [0.01, 0.99]], [(0.06, 0.4), (0.5, 0.04)])


def test_the_chance_to_leave_a_state_is_bounded_for_every_form() -> None:
    """Two states, three, and regimes."""
    assert leaving_chances(BINARY) == [(0.1, 0.2), (0.3, 0.4)]
    assert [tuple(round(one, 9) for one in pair) for pair in leaving_chances(THREE)] == [(0.2, 0.4)] * 3
    (low, high), _ = leaving_chances(RegimeTheta.of([SLOW, QUICK]))
    assert (round(low, 9), round(high, 9)) == (0.05, 0.5)
    assert transition_table(BINARY) == []
    assert transition_table(THREE)[0][1] == (0.1, 0.3)


def test_theta_is_drawn_setting_by_setting() -> None:
    """One band for each state, also of a single setting; the words name what they are of."""
    noise = BinaryNoiseMessage(rho0=0.2, rho1=0.2)
    setting = NoiseSetting(
        version=1, cohort="test", stream="motion", policy=1, theta=theta_message(BINARY), noise=noise
    )
    chart = theta_chart([(10.0, setting)], ["still", "moving"], 20.0)
    assert chart is not None
    bands = [one for one in chart.layers if isinstance(one, Band)]
    assert [(one.low[0], one.high[0]) for one in bands] == [(0.1, 0.2), (0.3, 0.4)]
    assert "moving → still: 0.3 to 0.4" in chart.points[0]
    assert theta_chart([], ["still", "moving"], 0.0) is None
    assert moves(["a", "b", "c"]) == ["leaves a", "leaves b", "leaves c"]


def test_coverage_shows_every_device_over_theta() -> None:
    """A device outside is drawn outside, and not counted as within; its name is under the pointer."""
    chart = coverage_chart((0.1, 0.3), [("in", (0.15, 0.2)), ("out", (0.25, 0.5))], "still → moving")
    assert chart is not None
    (bars,) = [one for one in chart.layers if isinstance(one, Bars)]
    assert list(bars.low) == [None, 0.15, 0.25, None]
    assert chart.high >= 0.5
    assert "1 lie within Θ" in chart.title
    assert len(chart.points) == len(chart.times)
    assert "NaN" not in str(chart.markup())
    assert coverage_chart((0.1, 0.3), [], "x") is None


def test_regimes_that_evidence_excludes_are_drawn_apart() -> None:
    """Each regime of each listed chain is one dot, at how long it lasts and its share."""
    chart = regime_chart(RegimeTheta.of([SLOW, QUICK]), RegimeTheta.of([QUICK]), ["low", "high"], 1.0)
    excluded, possible = (list(one.values) for one in chart.layers if isinstance(one, Dots))
    assert sum(one is not None for one in possible) == sum(one is not None for one in excluded) == 2
    assert "leaves 1 of them" in chart.title
    assert [round(10**one) for one in chart.times] == [100, 100, 1000, 1000]
    assert "1,000 ticks" in chart.points[-1][2]
    assert "NaN" not in str(chart.markup())
