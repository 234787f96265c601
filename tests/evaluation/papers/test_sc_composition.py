"""The composition section's numbers against closed forms."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hushmq.evaluation.papers.sc_composition import EPSILON, THETA, tau
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss
from tests.evaluation.conftest import Result


@pytest.mark.slow
def test_totals(quick: Callable[..., Result]) -> None:
    """The ledger ends at the closed form for an endless stream, SC's sum at K times one release.

    The same holds beside the local stream.
    """
    result = quick("composition")
    rows = {(row["schedule"], row["releases"]): row for row in result.table("releases")}
    tumbling = rows["tumbling windows", 8]
    assert tumbling["ledger"] == pytest.approx(EPSILON, rel=1e-4)
    assert tumbling["ledger"] <= EPSILON + 1e-6
    assert tumbling["sum, SC III.7"] == pytest.approx(8 * rows["tumbling windows", 1]["ledger"], rel=1e-9)
    informed = loss(THETA, tau0=tau(), tau1=tau())
    assert tumbling["ledger, any other states known"] == pytest.approx(informed, rel=1e-4)
    for row in rows.values():
        assert row["ledger"] <= min(row["best of SC's"], row["quilts on the timeline"]) + 1e-9
        assert row["best of SC's"] <= row["sum, SC III.7"]
        assert row["ledger"] <= row["ledger, any other states known"] + 1e-9
    # With the stream beside them, tumbling windows cost what the sum of both tilts costs for ever.
    row = next(row for row in result.table("with-stream") if row["releases"] == 8)
    both = (limit + tau() for limit in largest_tilts(THETA, EPSILON, "prior"))
    tau0, tau1 = both
    assert row["ledger"] == pytest.approx(loss(THETA, tau0=tau0, tau1=tau1, adversary="prior"), rel=1e-4)
