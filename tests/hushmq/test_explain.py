"""`hushmq explain`: the figures' numbers, and that they are drawn where they are."""

from __future__ import annotations

import json
import math
import sys
import xml.etree.ElementTree as ET  # of our own files
from pathlib import Path
from typing import Any

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.explain.axis import Axis
from hushmq.explain.figure import Curve, Figure, LabelledPoint, Panel
from hushmq.explain.figure_output import show
from hushmq.explain.svg_picture import save_svg
from hushmq.explain.terminal import draw
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss
from tests.hushmq.command import Hushmq
from tests.hushmq.enumeration import TIMELINES, losses, tilts_of

LAZY = {"chains": [{"transition": [[0.9, 0.1], [0.3, 0.7]], "initial": None}], "length": 500}
TIMELINE = {"q": 0.1, "r": 0.2, "ticks": 30, "entries": [{"first": 5, "last": 20, "tau0": 0.3, "tau1": 0.1}]}
PNG = b"\x89PNG\r\n\x1a\n"


def curves(panel: dict[str, Any]) -> dict[str, dict[float, float]]:
    """The curves of a panel by label, as y over x."""
    return {curve["label"]: dict(zip(curve["x"], curve["y"], strict=True)) for curve in panel["curves"]}


@pytest.mark.parametrize(("q", "r", "ticks", "entries"), TIMELINES)
@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_timeline_shows_the_loss_at_every_tick(
    hushmq: Hushmq, *, q: float, r: float, ticks: int, entries: list[dict[str, float]], adversary: str
) -> None:
    """The curve is the loss by definition at each tick, not only at the worst one, and the mark is its top."""
    given = hushmq.file({"q": q, "r": r, "ticks": ticks, "entries": entries})
    figure = hushmq("explain", "timeline", given, "--adversary", adversary, "--json").json
    tilts = tilts_of(ticks, entries)
    truth = losses(q, r, tilts, informed=adversary == "informed")
    above, below = figure["panels"]
    shown = curves(above)[f"loss, {adversary} adversary"]
    assert list(shown) == list(range(1, ticks + 1))
    assert list(shown.values()) == pytest.approx(truth, abs=1e-7)
    assert above["marks"][0]["y"] == pytest.approx(max(truth), abs=1e-9)
    spent = curves(below)
    for state in (0, 1):
        steps = spent.get("tilt", spent.get(f"tilt towards {state}", {}))
        # A step's value at a tick is that of the last edge before it.
        at = [steps[max(x for x in steps if x < tick)] for tick in range(1, ticks + 1)]
        assert at == pytest.approx([tilt[state] for tilt in tilts])


def test_long_timeline_keeps_its_worst_tick(hushmq: Hushmq) -> None:
    """A timeline too long to show every tick still shows the one that matters, and its budget."""
    entries = [{"first": 1, "last": 50_000, "tau": 0.01}, {"first": 7_777, "last": 7_777, "tau": 1}]
    given = hushmq.file({"q": 0.2, "r": 0.2, "ticks": 100_000, "entries": entries})
    panel = hushmq("explain", "timeline", given, "--adversary", "prior", "--budget", 2, "--json").json[
        "panels"
    ][0]
    shown = curves(panel)["loss, prior adversary"]
    assert len(shown) < 400
    assert max(shown, key=lambda tick: shown[tick]) == 7_777
    assert curves(panel)["budget 2"] == {1: 2, 100_000: 2}


def test_loss_against_noise(hushmq: Hushmq) -> None:
    """Each curve is the loss of the flipping probability below it: informed over prior over one sample alone."""
    panel, feasible = hushmq("explain", "loss", "--q", 0.1, "--r", 0.3, "--epsilon", 2, "--json").json[
        "panels"
    ]
    shown, theta = curves(panel), BinaryTheta.point(0.1, 0.3)
    for rho, value in shown["informed adversary"].items():
        tau = math.log((1 - rho) / rho)
        assert value == loss(theta, tau0=tau, tau1=tau, adversary="informed")
        assert value >= shown["prior adversary"][rho] - 1e-9
        assert shown["prior adversary"][rho] >= shown["one sample alone"][rho]
    assert set(shown["ε = 2"].values()) == {2}
    tau0, tau1 = largest_tilts(theta, 2, "prior")
    for rho0, rho1 in curves(feasible)["least noise, prior"].items():
        assert rho1 == pytest.approx(max((1 - rho0) * math.exp(-tau0), 1 - rho0 * math.exp(tau1)), abs=2e-6)
    assert [mark["label"].split(":")[0] for mark in feasible["marks"]] == ["informed", "prior"]


@pytest.mark.slow
def test_scale_against_epsilon(hushmq: Hushmq) -> None:
    """Each curve is what `hushmq scale` answers; a method without an answer is named with the reason."""
    given = hushmq.file(LAZY)
    figure = hushmq("explain", "scale", given, "--epsilon", 0.5, 2, "--points", 3, "--json").json
    shown = curves(figure["panels"][0])
    assert list(shown["mqm-exact"]) == pytest.approx([0.5, 1, 2])
    for label, points in shown.items():
        for epsilon, scale in points.items():
            asked = ("scale", given, "--epsilon", epsilon, "--method", label.split(" (")[0], "--json")
            assert hushmq(*asked).json["scale"] == scale
    assert [note.split(":")[0] for note in figure["notes"]] == ["gk16 is missing"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "content"),
    [
        (("loss", "--q", 0.1, "--r", 0.2, "--epsilon", 1), None),
        (("timeline", "given.json", "--budget", 1), TIMELINE),
        (("scale", "given.json", "--points", 3), LAZY),
    ],
)
def test_pictures(hushmq: Hushmq, tmp_path: Path, words: tuple[object, ...], content: object) -> None:
    """A PNG is a PNG, an SVG is XML; nothing is printed."""
    if content is not None:
        hushmq.file(content)
    named = [tmp_path / word if word == "given.json" else word for word in words]
    png, svg = tmp_path / "one.png", tmp_path / "one.svg"
    for path in (png, svg):
        answer = hushmq("explain", *named, "--output", path)
        assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert png.read_bytes().startswith(PNG)
    assert ET.parse(svg).getroot().tag.endswith("svg")  # noqa: S314  # written a moment ago


def test_a_picture_is_a_function_of_its_figure(tmp_path: Path) -> None:
    """Drawn twice, a figure gives the same file."""
    pictures = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for path in pictures:
        save_svg(
            Figure("title", [parabola(marks=[LabelledPoint("the middle", 0.5, 0.25)])], ["a note"]), path
        )
    assert pictures[0].read_bytes() == pictures[1].read_bytes()


def test_terminal(hushmq: Hushmq) -> None:
    """Without a file the figure is drawn in characters, without colours into a pipe, no wider than the terminal."""
    out = hushmq("explain", "timeline", hushmq.file(TIMELINE), "--budget", 1).out
    assert "Loss at each tick   [loss, nats]" in out
    assert "  b  budget 1\n" in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80


def parabola(**options: Any) -> Panel:
    x = [i / 100 for i in range(101)]
    return Panel("title", "x", "y", [Curve("square", x, [v * v for v in x])], **options)


def test_dots_lie_on_the_curve() -> None:
    """Every dot of a drawn parabola is within one dot of it, and every column has one."""
    rows = draw(Figure("", [parabola()]), columns=60, rows=12).splitlines()
    drawn = [row.split("│", 1)[-1].split("┤", 1)[-1] for row in rows if "│" in row or "┤" in row]
    dots = set()
    for line, row in enumerate(drawn):
        for column, character in enumerate(row):
            if 0x2800 < ord(character) <= 0x28FF:
                bits = ord(character) - 0x2800
                for number, (dx, dy) in enumerate(
                    [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)]
                ):
                    if bits >> number & 1:
                        dots.add((2 * column + dx, 4 * line + dy))
    width, height = 2 * len(drawn[0]), 4 * len(drawn)
    for x, y in dots:
        value = 1 - y / (height - 1)
        ends = [((x + d) / (width - 1)) ** 2 for d in (-1, 1)]
        assert min(ends) - 1.5 / height <= value <= max(ends) + 1.5 / height
    named = {
        2 * column + dx for row in drawn for column, text in enumerate(row) if text == "a" for dx in (0, 1)
    }
    assert {x for x, _ in dots} | named == set(range(width))


def test_marks_and_colours() -> None:
    """A mark is a number at its place and in the legend; with paint every curve and its letter have a colour."""
    text = draw(Figure("", [parabola(marks=[LabelledPoint("the middle", 0.5, 0.25)])]), columns=60, rows=12)
    assert "  1  the middle" in text
    painted = draw(Figure("", [parabola()]), columns=60, rows=12, paint=True)
    assert "\x1b[36ma\x1b[0m  square" in painted


@pytest.mark.parametrize(
    ("values", "logarithmic", "labels"),
    [
        ([0, 1], False, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ([0.5, 12.4], False, ["0", "2", "4", "6", "8", "10", "12"]),
        ([100, 104], False, ["100", "101", "102", "103", "104"]),
        ([1, 1_000_000], False, ["0", "200000", "400000", "600000", "800000", "1000000"]),
        ([0, 0], False, ["0", "0.1", "0.2", "0.3", "0.4", "0.5"]),
        ([0.1, 10], True, ["0.1", "0.2", "0.5", "1", "2", "5", "10"]),
        ([0.1, 1e4], True, ["0.1", "1", "10", "100", "1000", "10000"]),
        ([3, 3], True, ["2", "5"]),
    ],
)
def test_axis(values: list[float], logarithmic: bool, labels: list[str]) -> None:
    """Ticks are round numbers inside the axis, few enough to read."""
    axis = Axis.over(values, logarithmic=logarithmic)
    assert [axis.label(tick) for tick in axis.ticks()] == labels
    assert all(0 <= axis.share(tick) <= 1 for tick in axis.ticks())
    assert (axis.share(axis.low), axis.share(axis.high)) == (0, 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "the following arguments are required: loss|timeline|stride|scale"),
        (("pie",), "argument loss|timeline|stride|scale: invalid choice: 'pie'"),
        (("loss", "--q", 0.1), "the following arguments are required: --r; --r: chance per tick of 1→0"),
        (
            ("loss", "--q", 0.1, "--r", 0.1, "--epsilon", "x"),
            "argument --epsilon: 'x' is not a positive, finite",
        ),
        (
            ("loss", "--q", 0.1, "--r", 0.1, "--output", "a.pdf"),
            "argument --output: 'a.pdf' does not end in .png or .svg",
        ),
        (
            ("loss", "--q", 0.1, "--r", 0.1, "--output", "/no/a.png"),
            "--output: /no/a.png: No such file or directory",
        ),
        (("timeline", "/no/t.json"), "/no/t.json: No such file or directory"),
        (
            ("timeline", "given.json", "--budget", 0),
            "argument --budget: '0' is not a positive, finite number",
        ),
        (
            ("scale", "given.json", "--epsilon", 1),
            "argument --epsilon: expected 2 arguments; --epsilon: the range of ε",
        ),
        (("scale", "given.json", "--epsilon", 2, 1), "--epsilon: 2 to 1 is no range; LOW must be below HIGH"),
        (("scale", "given.json", "--points", 1), "--points: 1 is out of range: 2 to 200"),
        (("scale", "given.json", "--points", "x"), "argument --points: invalid int value: 'x'"),
    ],
)
def test_bad_input(hushmq: Hushmq, tmp_path: Path, words: tuple[object, ...], says: str) -> None:
    """Every bad word is refused in one line that names it and what it takes."""
    (tmp_path / "given.json").write_text(json.dumps(LAZY))
    named = [tmp_path / word if word == "given.json" else word for word in words]
    assert hushmq("explain", *named).complaint.startswith(f"hushmq: {says}")


def test_the_error_against_the_stride(hushmq: Hushmq) -> None:
    """N10 at ε = 2: the best stride is marked, every tick has about twice its error, and errors shrink with ticks."""
    chain = ("--q", 0.0893, "--r", 0.1092, "--epsilon", 2, "--json")
    panel = hushmq("explain", "stride", *chain).json["panels"][0]
    assert [curve["label"] for curve in panel["curves"]] == ["informed adversary", "prior adversary"]
    for curve, mark in zip(panel["curves"], panel["marks"], strict=True):
        assert curve["x"][0] == 1
        assert min(curve["y"]) == mark["y"]
        assert 2.0 < curve["y"][0] / mark["y"] < 2.3
        assert 5 <= mark["x"] <= 12
    longer = hushmq("explain", "stride", *chain, "--ticks", 28_800).json["panels"][0]
    assert longer["marks"][0]["y"] == pytest.approx(panel["marks"][0]["y"] / 2)


def test_an_svg_needs_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn without matplotlib; every curve, band, mark and note is in it, and words are escaped."""
    monkeypatch.setitem(sys.modules, "hushmq.explain.picture", None)
    curves = [
        Curve("a < b", [0.0, 1.0], [0.2, 0.4], dots=True, low=[0.1, 0.3], high=[0.3, 0.5]),
        Curve("before", [0.0, 1.0], [0.1, 0.1], reference=True),
    ]
    panel = Panel("panel", "days", "share", curves, marks=[LabelledPoint("the end", 1.0, 0.4)])
    show(Figure("R & D", [panel, panel, panel], ["a note"]), output=tmp_path / "one.svg", as_json=False)
    text = (tmp_path / "one.svg").read_text()
    root = ET.fromstring(text)  # noqa: S314  # written a moment ago
    words = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"R & D", "panel", "days", "share", "a < b", "before", "the end", "a note"} <= set(words)
    assert (text.count("<polygon"), text.count("<polyline")) == (3, 3 * 2 * 2)
    assert text.count("stroke-dasharray") == 3 * 2
    with pytest.raises(Problem, match="a PNG needs hushmq"):
        show(Figure("R & D", [panel]), output=tmp_path / "one.png", as_json=False)
