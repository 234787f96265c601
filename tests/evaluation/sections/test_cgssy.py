"""CGSSY's figures in a quick run: what must be seen in them is seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from hushmq.evaluation.attackers import lstm
from hushmq.evaluation.section_list import Job
from hushmq.evaluation.sections import informed_attack
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.papers.cgssy import corollary_1
from tests.evaluation.conftest import Result
from tests.hushmq.command import Hushmq
from tests.pufferfish.oracles import attack, local
from tests.recordings import DATA, needs_data

Quick = Callable[..., Result]


@pytest.mark.slow
def test_noise(quick: Quick) -> None:
    """Every noise of the table loses its ε and not more; in Figure 3 the order is the paper's, ours above exact."""
    found = quick("cgssy")
    for row in found.table("figure-1"):
        assert row["loss"] == pytest.approx(row["ε"], abs=1e-9)
    for row in found.table("figure-3"):
        assert row["plain DP"] < row["CGSSY, exact"] <= row["ours, informed adversary"]
        assert row["ours, informed adversary"] < row["CGSSY, approximate"] < row["Zhao et al."]


@pytest.mark.slow
def test_attack(quick: Quick) -> None:
    """Plain DP bounds the single bit and not the attacker who knows the correlation; ours bounds both."""
    rows = quick("attack").table("figure-2")
    promise = 1 / (1 + math.exp(-0.5))
    for row in rows:
        assert row["single bit, exact"] == pytest.approx(promise)
        assert abs(row["single bit, drawn"] - promise) < 0.1
        assert row["forward–backward, exact"] >= promise - 1e-12
        assert row["forward–backward against ours"] <= promise + 1e-12
        assert row["ε charged to it"] <= row["loss of plain DP, exact"] + 1e-9
    assert rows[0]["forward–backward, exact"] > 0.85
    assert rows[-1]["forward–backward, exact"] == pytest.approx(promise)


@pytest.mark.slow
def test_informed(quick: Quick) -> None:
    """The loss of their noise exceeds ε, that of ours never; posteriors and probabilities are consistent with that."""
    found = quick("informed")
    rows = found.table("losses")
    for row in rows:
        assert row["real loss, ours"] <= row["ε"]
        assert row["chance with ours"] == 0.0
        assert (row["belief after"] > row["belief allowed"] + 1e-9) == (
            row["real loss, fewest flips"] > row["ε"] + 1e-6
        )
    assert any(row["chance of passing e^ε"] > 0.001 for row in rows)
    assert found.findings("loses")


def test_the_worst_known_states_are_the_enumerated_ones() -> None:
    """Seven ticks, every set of known states: none has a larger loss than the one found, which attains its loss."""
    q, r = 0.2384, 0.3831
    noise = corollary_1(q, r, 4.0)
    found = informed_attack.worst_known_state(q, r, noise)
    listed = attack(q, r, local([(noise.rho0, noise.rho1)] * 7), informed=True, ticks=[3])
    assert found.distance <= 3
    assert found.loss == pytest.approx(listed.loss, abs=1e-12)
    assert found.loss == pytest.approx(
        loss(BinaryTheta.point(q, r), tau0=noise.tau0, tau1=noise.tau1), abs=1e-6
    )


def test_the_chance_by_listing_all_outputs() -> None:
    """Known states three ticks away, five outputs between: the probability is the sum over the outputs above ε."""
    q, r, noise = 0.2, 0.2, BinaryNoise(0.1641457, 0.1641457)
    worst = informed_attack.WorstKnownState(state=1, distance=3, known_state=0, loss=0.0)
    expected = 0.0
    steps = ((1 - q, q), (r, 1 - r))
    keep = ((1 - noise.rho0, noise.rho0), (noise.rho1, 1 - noise.rho1))
    paths = [[path >> t & 1 for t in range(5)] for path in range(32)]

    def weight(path: list[int]) -> float:
        whole = [0, *path, 0]
        return math.prod(steps[a][b] for a, b in pairwise(whole))

    total = sum(map(weight, paths))
    for outputs in paths:
        joint = [0.0, 0.0]
        masses = [0.0, 0.0]
        for path in paths:
            likely = math.prod(keep[x][z] for x, z in zip(path, outputs, strict=True))
            joint[path[2]] += weight(path) * likely
            masses[path[2]] += weight(path)
        if abs(math.log(joint[0] / masses[0]) - math.log(joint[1] / masses[1])) > 4.0:
            expected += sum(joint) / total
    assert expected > 0
    assert informed_attack.excess_probability(q, r, noise, worst, 4.0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@needs_data
def test_reconstruct(quick: Quick) -> None:
    """All three records: no attacker exceeds the valid bound, and the fitted chains are the paper's."""
    found = quick("reconstruct")
    rows = found.table("figure-4")
    assert [row["record"] for row in rows[:: len(rows) // 3]] == ["synthetic", "N10", "N5"]
    for row in rows:
        for name in ("Viterbi", "forward–backward", "forward–backward, our noise"):
            assert 0.3 < row[name] <= row["bound that holds"]
        assert row["real loss, informed"] >= row["ε"] - 1e-9
    taught = [row["LSTM"] for row in rows if row["LSTM"] is not None]
    assert bool(taught) == lstm.available()


@pytest.mark.slow
def test_reconstruct_without_recordings_or_torch(
    hushmq: Hushmq, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is said, and the rest is done."""
    monkeypatch.setattr(lstm, "available", lambda: False)
    answer = hushmq("evaluate", "reconstruct", "--quick", "--out", tmp_path, "--data", "/nowhere", "--json")
    assert answer.json["sections"][0]["status"] == "done"
    text = (tmp_path / "reconstruct.md").read_text()
    assert "**Skipped:** N10 and N5: the recording" in text
    assert "**Skipped:** the LSTM: PyTorch is not installed (pip install 'hushmq[lstm]')" in text


@pytest.mark.slow
@needs_data
def test_the_recordings_are_the_papers() -> None:
    """Length, q and r of N10 and N5 as CGSSY print them."""
    from hushmq.evaluation.papers import cgssy_reconstruction as reconstruction

    job = Job("reconstruct", False, 1, DATA, lambda share, doing: None)
    counted = {record.name: record for record in reconstruction._recorded(job)}
    for name, length, q, r in (("N10", 26_923, 0.0893, 0.1092), ("N5", 16_859, 0.2384, 0.3831)):
        record = counted[name]
        assert len(record.states) == length
        assert (record.q, record.r) == pytest.approx((q, r), abs=1e-4)
