"""`hushmq scale`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.hushmq.command import Hushmq
from tests.pufferfish import real_chains
from tests.recordings import needs_data

LAZY = [[0.9, 0.1], [0.3, 0.7]]


def chain_file(*transitions: object, length: int | None = None, initial: object = None) -> dict[str, Any]:
    return {"chains": [{"transition": one, "initial": initial} for one in transitions], "length": length}


def enumerated_mqm(transition: list[list[float]], length: int, epsilon: float) -> tuple[float, set[Any]]:
    """MQMExact on a stationary chain straight from SWC Algorithm 3: every node, every quilt, every pair of states."""
    P = np.array(transition)
    powers = [np.linalg.matrix_power(P, h) for h in range(length + 1)]
    pi = np.linalg.matrix_power(P, 4096)[0]
    k, worst = len(P), (0.0, set[Any]())
    for i in range(1, length + 1):
        scores: dict[Any, float] = {(None, None): length / epsilon}
        for a in (None, *range(1, i)):
            for b in (None, *range(1, length - i + 1)):
                influence = max(
                    (
                        0
                        if a is None
                        else math.log(pi[y] / pi[x]) + max(np.log(powers[a][:, x] / powers[a][:, y]))
                    )
                    + (0 if b is None else max(np.log(powers[b][x] / powers[b][y])))
                    for x in range(k)
                    for y in range(k)
                )
                near = (i if a is None else a) + (length - i + 1 if b is None else b) - 1
                if influence < epsilon:
                    scores[a, b] = near / (epsilon - influence)
        best = min(scores.values())
        if best > worst[0] * (1 + 1e-9):
            worst = best, {quilt for quilt, score in scores.items() if score <= best * (1 + 1e-9)}
        elif best > worst[0] * (1 - 1e-9):
            worst[1].update(quilt for quilt, score in scores.items() if score <= best * (1 + 1e-9))
    return worst


@pytest.mark.parametrize("length", [1, 5, 30])
@pytest.mark.parametrize("transition", [LAZY, [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]]])
def test_mqm_exact_is_the_papers(hushmq: Hushmq, transition: list[list[float]], length: int) -> None:
    """The scale of mqm-exact is that of a full enumeration of nodes and quilts, with a quilt that reaches it."""
    given = hushmq.file(chain_file(transition, length=length))
    found = hushmq("scale", given, "--epsilon", 1, "--method", "mqm-exact", "--json").json
    scale, quilts = enumerated_mqm(transition, length, 1.0)
    assert found["method"] == "mqm-exact"
    assert found["scale"] == pytest.approx(scale, rel=1e-9)
    assert tuple(found["quilt"]) in quilts


@pytest.mark.parametrize(("method", "scale"), [("entry", 0.5), ("group", 50.0)])
def test_simple_methods(hushmq: Hushmq, method: str, scale: float) -> None:
    """entry is 1/ε, group T/ε, and neither has a quilt."""
    given = hushmq.file(chain_file(LAZY, length=100))
    found = hushmq("scale", given, "--epsilon", 2, "--method", method, "--json").json
    assert found == {"method": method, "scale": scale, "quilt": [None, None]}


@pytest.mark.parametrize(("q", "r"), [(0.1, 0.3), (0.0893, 0.1092), (0.7, 0.6)])
@pytest.mark.parametrize("method", ["tilted-quilt", "limit"])
def test_binary_chains_reach_the_limit(hushmq: Hushmq, q: float, r: float, method: str) -> None:
    """On an endless binary chain the tilted quilt attains the lower bound, as `calibrate` for a count."""
    given = hushmq.file(chain_file([[1 - q, q], [r, 1 - r]]))
    found = hushmq("scale", given, "--epsilon", 1, "--method", method, "--json").json["scale"]
    exact = hushmq("calibrate", "--q", q, "--r", r, "--epsilon", 1, "--json").json["scale"]
    assert found == pytest.approx(exact, rel=1e-6)


def write(chain: Chain) -> dict[str, Any]:
    return chain_file(chain.transition.tolist())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chain", "mqm", "limit", "above"),
    [
        pytest.param(real_chains.heart_rate, 78.24, 19.93, 1.10, marks=needs_data, id="heart rate"),
        pytest.param(real_chains.activity, 1208.0, 302.8, 1.10, marks=needs_data, id="activity"),
        pytest.param(real_chains.occupancy, 592.5, 140.5, 1.001, marks=needs_data, id="occupancy"),
        pytest.param(real_chains.power, 543.25, 141.22, 1.25, marks=needs_data, id="power"),
    ],
)
def test_real_chains(
    hushmq: Hushmq, chain: Callable[[], Chain], mqm: float, limit: float, above: float
) -> None:
    """At ε = 1: mqm-exact and the lower bound as in docs/theory-k.md, the tilted quilt between, near the latter."""
    given = hushmq.file(write(chain()))
    scales = {
        method: hushmq("scale", given, "--epsilon", 1, "--method", method, "--json").json["scale"]
        for method in ("mqm-approx", "mqm-exact", "tilted-quilt", "limit")
    }
    assert scales["mqm-exact"] == pytest.approx(mqm, rel=1e-3)
    assert scales["limit"] == pytest.approx(limit, rel=1e-3)
    assert scales["limit"] <= scales["tilted-quilt"] * (1 + 1e-9)
    assert scales["tilted-quilt"] <= scales["mqm-exact"] <= scales["mqm-approx"]
    assert scales["tilted-quilt"] <= above * scales["limit"]


@pytest.mark.parametrize("length", [1, 3, 20, None])
@pytest.mark.parametrize("initial", [None, [0.1, 0.9]])
def test_methods_in_their_order(hushmq: Hushmq, length: int | None, initial: list[float] | None) -> None:
    """For every length and initial law: lower bound ≤ tilted quilt ≤ mqm-exact."""
    given = hushmq.file(chain_file(LAZY, length=length, initial=initial if length else None))
    limit, tilted, mqm = (
        hushmq("scale", given, "--epsilon", 0.8, "--method", method, "--json").json["scale"]
        for method in ("limit", "tilted-quilt", "mqm-exact")
    )
    assert limit <= tilted * (1 + 1e-9)
    assert tilted <= mqm * (1 + 1e-9)


def test_several_chains(hushmq: Hushmq) -> None:
    """Of several chains the worst counts."""
    slow = [[0.95, 0.05], [0.05, 0.95]]

    def scale(*transitions: object) -> float:
        given = hushmq.file(chain_file(*transitions))
        return float(hushmq("scale", given, "--epsilon", 1, "--method", "mqm-exact", "--json").json["scale"])

    assert scale(LAZY, slow) == scale(slow, LAZY) == max(scale(LAZY), scale(slow))


def test_fields_that_may_be_left_out(hushmq: Hushmq) -> None:
    """No initial is the stationary one, no length an endless stream."""
    full = hushmq.file(chain_file(LAZY), "full.json")
    short = hushmq.file({"chains": [{"transition": LAZY}]}, "short.json")
    asked = ("--epsilon", 1, "--method", "mqm-exact", "--json")
    assert hushmq("scale", full, *asked).json == hushmq("scale", short, *asked).json


def test_initial_distribution(hushmq: Hushmq) -> None:
    """A given start changes the answer on a short stream; the stationary one in numbers is the same as null."""
    asked = ("--epsilon", 1, "--method", "mqm-exact", "--json")
    null, numbers, other = (
        hushmq("scale", hushmq.file(chain_file(LAZY, length=20, initial=one)), *asked).json["scale"]
        for one in (None, [0.75, 0.25], [0.01, 0.99])
    )
    assert numbers == pytest.approx(null, rel=1e-9)
    assert abs(other - null) > 1e-3
    endless = hushmq("scale", hushmq.file(chain_file(LAZY, initial=[0.75, 0.25])), *asked).json
    assert endless == hushmq("scale", hushmq.file(chain_file(LAZY)), *asked).json


def test_lines_for_a_person(hushmq: Hushmq) -> None:
    """Without --json: three aligned lines."""
    given = hushmq.file(chain_file(LAZY, length=3600))
    lines = hushmq("scale", given, "--epsilon", 1, "--method", "mqm-exact").out.splitlines()
    assert lines == [
        "method  mqm-exact",
        "scale   16.6254    Laplace scale for a query that one state changes by at most 1",
        "quilt   7 7        ticks before and after the secret to the active quilt's ends",
    ]


@pytest.mark.parametrize(
    ("method", "given", "says"),
    [
        (
            "gk16",
            chain_file(LAZY, length=100),
            "gk16 does not apply: the spectral norm of the influence matrix is",
        ),
        ("group", chain_file(LAZY), "the scale of group-DP grows with the length; give a finite length"),
        ("mqm-exact", chain_file([[0, 1], [1, 0]]), "the chain is reducible or periodic"),
        ("tilted-quilt", chain_file([[0, 1], [1, 0]]), "the chain has period 2"),
        ("mqm-approx", chain_file([[0, 1], [1, 0]], length=10), "the chain has period 2"),
    ],
)
def test_a_method_without_an_answer(hushmq: Hushmq, method: str, given: dict[str, Any], says: str) -> None:
    """Right input for which a method has no answer: exit code 1, the reason in one line, a null scale in JSON."""
    path = hushmq.file(given)
    for words in ((), ("--json",)):
        answer = hushmq("scale", path, "--epsilon", 1, "--method", method, *words)
        assert answer.code == 1
        assert answer.err.startswith(f"hushmq: --method {method}: {says}")
        assert answer.err.count("\n") == 1
        assert (answer.json if words else answer.out) == (
            {"method": method, "scale": None, "quilt": [None, None]} if words else ""
        )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON: line 1 column 2"),
        ([LAZY], "a list; it must be an object {…}"),
        ({"length": 3}, "chains: missing; it must be a list of chains"),
        ({"chains": []}, "chains: an empty list; give at least one chain"),
        ({"chains": LAZY}, "chains[0]: a list; it must be an object {…}"),
        ({"chains": [{"initial": None}]}, "chains[0]: transition: missing; it must be a list of rows"),
        ({"chains": [{"transition": 3}]}, "chains[0]: transition: 3; it must be a list of rows"),
        (chain_file([[0.9, 0.2], [0.3, 0.7]]), "chains[0]: transition row 0 sums to 1.1; it must sum to 1"),
        (
            chain_file([[0.9, 0.1], [0.3, "0.7"]]),
            'chains[0]: transition[1][1]: "0.7"; it must be a finite number',
        ),
        (
            chain_file([[1.1, -0.1], [0.3, 0.7]]),
            "chains[0]: transition row 0 contains -0.1; probabilities are never",
        ),
        (
            chain_file([[0.9, 0.1], [1]]),
            "chains[0]: transition: rows of different lengths; it must be square",
        ),
        (chain_file([[0.9, 0.1]]), "chains[0]: transition has shape (1, 2); it must be square"),
        (chain_file([[1]]), "chains[0]: transition has 1 states; a chain with a secret has at least 2"),
        (
            chain_file(LAZY, [[1, 0], [0, 1]]),
            "chains[1]: the chain is reducible (state 0 never leads to state 1)",
        ),
        (chain_file(LAZY, initial=[1], length=9), "chains[0]: initial has shape (1,)"),
        (chain_file(LAZY, initial=[0.5, 0.4], length=9), "chains[0]: initial sums to 0.9; it must sum to 1"),
        (
            chain_file(LAZY, initial="no", length=9),
            'chains[0]: initial: "no"; it must be a list of probabilities',
        ),
        (chain_file(LAZY, initial=[1, 0]), "chains[0]: initial: an endless stream is stationary; give null"),
        (
            {**chain_file(LAZY), "length": 0},
            "length: 0; it must be a whole number of ticks, 1 or more, or null",
        ),
        ({**chain_file(LAZY), "length": "9"}, 'length: "9"; it must be a whole number of ticks'),
        ({**chain_file(LAZY), "T": 9}, "T: unknown field; the fields are chains, length"),
        (
            {"chains": [{"transition": LAZY, "start": 1}]},
            "chains[0]: start: unknown field; the fields are transition",
        ),
    ],
)
def test_bad_file(hushmq: Hushmq, content: object, says: str) -> None:
    """Every bad file is refused in one line: the file, the way to the field, what it holds, what it takes."""
    given = hushmq.file(content)
    complaint = hushmq("scale", given, "--epsilon", 1, "--method", "mqm-exact").complaint
    assert complaint.startswith(f"hushmq: {given}: {says}")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--epsilon", "x", "argument --epsilon: 'x' is not a positive, finite number"),
        ("--epsilon", "0", "argument --epsilon: '0' is not a positive, finite number"),
        ("--method", "best", "argument --method: invalid choice: 'best' (choose from 'entry', 'group', "),
    ],
)
def test_bad_option(hushmq: Hushmq, option: str, value: str, says: str) -> None:
    """Every bad option is refused in one line that names it and what it takes."""
    words = [word for pair in {"--epsilon": "1", "--method": "entry", option: value}.items() for word in pair]
    assert hushmq("scale", hushmq.file(chain_file(LAZY)), *words).complaint.startswith(f"hushmq: {says}")
