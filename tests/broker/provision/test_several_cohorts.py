"""A site with several cohorts: who may use the topics of which."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import Topics
from hushmq.broker.provision import site_description
from hushmq.broker.provision.site_description import AddedCohort, Description
from hushmq.broker.provision.site_folder import SiteFolder

WARDS = Description(
    cohort="ward-1",
    hosts=("127.0.0.1",),
    listen="127.0.0.1",
    tls="none",
    devices=("bed-1",),
    cohorts=(AddedCohort(name="ward-2", devices=("bed-2", "bed-3"), subscribers=("nurse",)),),
)


def test_devices_and_subscribers_use_their_cohort_only(tmp_path: Path) -> None:
    """A device or subscriber of one cohort has no right in another; calibrators and ops have those of all."""
    site = SiteFolder.create(tmp_path, WARDS).site()
    one, two = Topics("ward-1"), Topics("ward-2")
    for name, cohort in (("bed-1", one), ("bed-2", two), ("subscriber", one), ("nurse", two)):
        granted = site.rights(site.identity(name))
        filters = (*granted.publish, *granted.subscribe)
        assert filters
        assert all(each.startswith(f"hush/1/{cohort.cohort}/") for each in filters), name
    worker = site.rights(site.identity("calibrator"))
    assert {one.all("z"), two.all("z")} <= set(worker.subscribe)
    assert {one.all("ledger"), two.all("ledger")} <= set(worker.publish)
    assert {one.policy, two.policy} <= set(site.rights(site.identity("ops")).publish)


def test_a_site_with_cohorts_is_written_and_read(tmp_path: Path) -> None:
    """Adding and revoking identities leaves the cohorts of the others as they are."""
    folder = SiteFolder.create(tmp_path, WARDS)
    folder.add("device", "bed-9")
    folder.revoke("bed-2")
    found = SiteFolder(tmp_path).description
    assert found.devices == ("bed-1", "bed-9")
    assert [(one.name, one.devices, one.subscribers) for one in found.cohorts] == [
        ("ward-2", ("bed-3",), ("nurse",))
    ]
    assert found.cohort_of("bed-3") == "ward-2"
    assert found.cohort_of("bed-9") is None


@pytest.mark.parametrize(
    ("cohorts", "problem"),
    [
        ([{"name": "ward-1"}], "ward-1 is named twice; cohorts must have different names"),
        (
            [{"name": "ward-2", "devices": ["bed-1"]}],
            "bed-1 is named twice; identities must have different names",
        ),
        ([{"name": "ward-2", "devices": ["cohort"]}], "no device may have the name 'cohort'"),
        ([{"name": "ward-2", "consoles": ["me"]}], "cohorts.0.consoles"),
    ],
)
def test_what_cannot_be_is_refused(cohorts: list[dict[str, object]], problem: str) -> None:
    """Names are unique in the whole site, and only devices and subscribers belong to an added cohort."""
    with pytest.raises(Problem, match=problem):
        site_description.parse({"cohort": "ward-1", "hosts": ["a"], "devices": ["bed-1"], "cohorts": cohorts})
