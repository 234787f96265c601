"""A policy that a few devices apply first: the calibrator follows it, and counts what the others send meanwhile."""

from __future__ import annotations

from pathlib import Path

from hushmq.broker.contract.policy_message import Audiences, Threshold
from hushmq.broker.contract.problem import Reason
from hushmq.calibrator.ingest.inbox import Arrived
from tests.calibrator.site import TOPICS, desk, policy, signed, sqlite


def test_a_meaning_changes_for_all_devices_at_once(tmp_path: Path) -> None:
    """Else windows would add up states that mean different things. Any other policy may be for a few devices first."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        few = {"first_devices": ("d0",)}
        other = policy(2, discretiser=Threshold(at=80.0)).model_copy(update=few)
        here.cohort.receive([Arrived(TOPICS.policy, signed(other))])
        assert here.cohort.policy == policy()
        assert here.cohort.rejected[Reason.POLICY_MISMATCH] == 1
        lower = policy(3, epsilon=Audiences(operator=3.0, public=1.0)).model_copy(update=few)
        here.adopt(lower)
        assert here.cohort.policy == lower
        here.window(0, noise=1)  # of the former policy, and counted
        assert len(here.cohort.close_due().windows) == 1
