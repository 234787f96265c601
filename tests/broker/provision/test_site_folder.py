"""The folder of a site: identities and their secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from hushmq.broker.provision import site_description
from hushmq.broker.provision.site_description import Description
from hushmq.broker.provision.site_folder import SiteFolder


@pytest.mark.parametrize("identify", ["password", "certificate"])
def test_a_secret_is_there_before_the_description_names_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, identify: Literal["password", "certificate"]
) -> None:
    """A broker that runs follows the description and makes what is missing: of two secrets one would be wrong."""
    folder = SiteFolder.create(tmp_path / "site", Description(cohort="home", hosts=("a",), identify=identify))
    write, made_by_others = site_description.write, []

    def write_while_a_broker_looks(path: Path, description: Description) -> None:
        write(path, description)
        before = {file: file.read_bytes() for file in path.parent.rglob("*") if file.is_file()}
        SiteFolder(path.parent).complete()
        made_by_others.extend(set(path.parent.rglob("*")) - before.keys() - {path.parent})

    monkeypatch.setattr(site_description, "write", write_while_a_broker_looks)
    folder.add("device", "ring")
    assert [one for one in made_by_others if one.is_file()] == []
    assert SiteFolder(folder.path).description.role("ring") == "device"
