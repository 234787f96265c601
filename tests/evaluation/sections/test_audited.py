"""The audit's and the peers' sections in a quick run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hushmq.evaluation.benchmarks import peer_speed as bench
from hushmq.evaluation.benchmarks.peer_speed import Absent, Peer, plain
from hushmq.evaluation.sections import peers
from tests.evaluation.conftest import Result
from tests.pufferfish.sampling import plausible


@pytest.mark.slow
def test_audit(quick: Callable[..., Result]) -> None:
    """Plain randomized response and noise 5% too weak are refuted by what is seen; no bound is far above the truth."""
    found = quick("audit")
    for row in found.table("verdicts"):
        assert row["transcripts: at least"] < row["real loss"] * 1.05
        assert row["ticks: at least"] < row["real loss"] * 1.05
        if row["noise"].startswith("plain"):
            assert row["verdict"].startswith("refuted: stated, transcripts, ticks")
    # At 99% confidence, one run in a hundred may also object to something that is right.
    assert found.table("power")[-1]["verdict"].startswith("refuted: ticks")


@pytest.mark.slow
def test_peers(quick: Callable[..., Result]) -> None:
    """Installed peers are measured and refuted on the correlated stream, missing ones are reported, ours stands."""
    found = quick("peers")
    rows = {row["mechanism"]: row for row in found.table("peers")}
    assert rows.keys() == {"hushmq", *(peer.name for peer in bench.PEERS)}
    assert rows["hushmq"]["real loss, informed"] <= 1.0
    for row in rows.values():
        if row["bits/s"] is None:
            assert "pip install 'hushmq[peers]'" in row["version"] or "cannot be imported" in row["version"]
        elif row["mechanism"] != "hushmq":
            assert row["claim on this chain"] == "refuted"
            assert row["real loss, prior"] == pytest.approx(4.679, abs=1e-3)
    # NumPy and OpenDP come with the extra `evaluation`.
    assert rows["OpenDP, one bit"]["bits/s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("peer", bench.PEERS, ids=lambda peer: peer.name)
def test_a_peer_flips_as_often_as_randomized_response(peer: Peer) -> None:
    """Both states, the frequency that ε asks for, and a tenth less would be found out."""
    try:
        perturb = peer.perturber(1.0)
    except Absent as absent:
        pytest.skip(str(absent))
    rho, draws = plain(1.0).rho0, 11_000
    for state in (0, 1):
        outputs = perturb(bytes([state]) * draws)
        assert len(outputs) == draws
        flips = sum(output != state for output in outputs)
        assert plausible(flips, draws, rho)
        assert not plausible(round(draws * 0.9 * rho), draws, rho)


@pytest.mark.slow
def test_what_is_missing_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that cannot be had is named with the reason, and the others are measured."""

    def absent(epsilon: float) -> bench.Perturb:
        raise ImportError("no such thing")

    gone = Peer("gone", "no-such-package", "nowhere", absent, 10)
    broken = Peer("broken", "numpy", "nowhere", absent, 10)
    monkeypatch.setattr(bench, "PEERS", (gone, broken))
    rows = {row.name: row for row in bench.run()}
    assert rows["bits perturbed, against gone"].value is None
    assert "not installed: pip install 'hushmq[peers]'" in rows["bits perturbed, against gone"].against
    assert "cannot be imported here: no such thing" in rows["bits perturbed, against broken"].against
    monkeypatch.setattr(peers, "PEERS", (gone, broken))
    entries, missing = peers.contestants(10_000)
    assert [entry.name for entry in entries] == ["hushmq"]
    assert [name for name, _ in missing] == ["gone", "broken"]
