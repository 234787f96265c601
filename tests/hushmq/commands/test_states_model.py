"""`hushmq calibrate` and `price` for a chain of several states, or bounds on it, with and without a stride."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.thinning.state_strides import strides
from tests.hushmq.command import Hushmq

ROWS = [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """One chain in a file."""
    path = tmp_path / "states.json"
    path.write_text(json.dumps({"transition": ROWS}))
    return path


@pytest.mark.parametrize("stride", [1, 6, "auto"])
def test_price_gives_back_what_calibrate_reached(hushmq: Hushmq, chain: Path, stride: int | str) -> None:
    """The noise keeps ε and nearly uses it; `auto` is the stride with the least error of those tried."""
    given = ("--chain", chain, "--adversary", "prior", "--json")
    noise = hushmq("calibrate", *given, "--epsilon", 2, "--stride", stride).json
    assert list(noise) == ["keep", "other", "tau", "epsilon", "stride"]
    assert 1.99 < noise["epsilon"] <= 2.0
    assert noise["keep"] + 2 * noise["other"] == pytest.approx(1.0)
    found = hushmq("price", *given, "--keep", noise["keep"], "--stride", noise["stride"]).json
    assert found["epsilon"] == pytest.approx(noise["epsilon"], rel=1e-6)
    if stride == "auto":
        tried = strides(CategoricalTheta.point(ROWS), 2.0, "prior")
        assert noise["stride"] == min(tried, key=lambda one: one.variance).stride > 1
        assert min(one.variance for one in tried) < tried[0].variance / 3


def test_bounds_cost_more_than_the_chain_within(hushmq: Hushmq, chain: Path, tmp_path: Path) -> None:
    """And whoever knows the bounds alone learns which chain it is as well."""
    wide = tmp_path / "wide.json"
    low, high = ([[p + by for p in row] for row in ROWS] for by in (-0.01, 0.01))
    wide.write_text(json.dumps({"low": low, "high": high}))
    losses = [
        hushmq("price", "--chain", path, "--keep", 0.6, "--stride", 9, "--json").json
        for path in (chain, wide)
    ]
    assert losses[0]["epsilon"] < losses[1]["epsilon"] < losses[1]["undecided"]
    assert "undecided" not in losses[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("price", "--keep", 0.6, "--q", 0.1), "--q: it is not for --chain"),
        (("price", "--stride", 3), "--keep: missing"),
        (("price", "--keep", 0.2), "above 0.333333"),
        (("calibrate", "--epsilon", 1, "--weights", "stationary"), "--weights"),
    ],
)
def test_what_does_not_fit_is_named(
    hushmq: Hushmq, chain: Path, arguments: tuple[object, ...], says: str
) -> None:
    """One line, and nothing on standard output."""
    assert says in hushmq(*arguments, "--chain", chain).complaint


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"transition": [[0.5, 0.4], [0.5, 0.5]]}, "row 0 sums to 0.9"),
        ({"low": ROWS}, "give either transition, or low and high"),
    ],
)
def test_a_wrong_file_is_named(hushmq: Hushmq, tmp_path: Path, tree: object, says: str) -> None:
    """The file and its field."""
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(tree))
    complaint = hushmq("price", "--chain", path, "--keep", 0.7).complaint
    assert f"{path}: " in complaint
    assert says in complaint
