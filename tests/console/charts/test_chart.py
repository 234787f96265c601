"""Charts: every point is within the drawing, groups keep their extremes, and text is escaped."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from hushmq.console.charts.chart import Chart, Line, bounds
from hushmq.console.charts.promise_charts import loss_chart
from hushmq.console.charts.share_chart import share_chart
from hushmq.console.store.release_groups import MOST
from hushmq.console.store.release_series import release_point
from tests.console.stored_releases import groups, payload


@pytest.mark.parametrize("count", [1, 2, 30, 300, MOST + 1, 3 * MOST + 7])
def test_whatever_there_is_is_drawn_within_the_frame(count: int) -> None:
    """One release or thousands: all coordinates are within the drawing, and every group has its words."""
    shares = [0.5 + 0.3 * (-1) ** n * (n % 7) / 7 for n in range(count)]
    drawn = groups([payload(n, share, smoothed=n % 5 != 0) for n, share in enumerate(shares)])
    text = str(share_chart(drawn, 1, 1.0).markup())
    assert "<home>" not in text
    assert "NaN" not in text
    assert "style=" not in text
    for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", text):
        assert 0 <= float(x) <= 1000
        assert 0 <= float(y) <= 300
    found = re.search(r'data-points="([^"]+)"', text)
    assert found is not None
    data = json.loads(unescape(found[1]))
    assert len(data["x"]) == len(data["text"]) == -(-count // -(-count // MOST))
    assert data["x"] == sorted(data["x"])
    assert "entry" in data["text"][-1][-1]


def test_a_group_shows_its_least_and_largest() -> None:
    """One high release among thousands is not lost in a group."""
    chart = share_chart(groups([payload(n, 0.9 if n == 1000 else 0.5) for n in range(4 * MOST)]), 1, 1.0)
    assert max(one for layer in chart.layers if hasattr(layer, "high") for one in layer.high if one) == 0.9
    assert chart.high >= 0.9


def test_a_missing_value_breaks_the_line() -> None:
    """Nothing is drawn where nothing is known."""
    chart = Chart("t", [0, 1, 2, 3], [Line([1, None, 2, 3], "a")], 0, 4, str)
    assert len(re.findall("M", str(chart._layer(chart.layers[0])))) == 2


@pytest.mark.parametrize("values", [[0.5], [0.1, 0.9], [0.333, 0.334], [0, 0], [1.0, 1.0], [2.9, 17.3]])
def test_limits_hold_the_values(values: list[float]) -> None:
    """Round, and around all of them."""
    low, high = bounds(values)
    assert low <= min(values) <= max(values) <= high
    assert low < high


def test_the_loss_of_a_single_release_is_seen() -> None:
    """As a dot: a line through one value is nothing. From the second on it is a line."""
    first, second = (release_point(payload(n, 0.5)) for n in (0, 1))
    assert 'class="dots smooth"' in loss_chart([first], 1, 1.0, {"public": 1.0}).markup()
    assert 'class="dots' not in loss_chart([first, second], 2, 1.0, {"public": 1.0}).markup()
