"""The command line, and sections run as the command runs them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hushmq.evaluation.published_results import read, stale
from tests.hushmq.command import Hushmq
from tests.recordings import DATA


@pytest.fixture
def hushmq(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Hushmq:
    return Hushmq(capsys, tmp_path)


@dataclass(frozen=True, slots=True)
class Result:
    """A section's JSON file, and where it lies."""

    folder: Path
    whole: dict[str, Any]

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table, by column."""
        (found,) = (item for item in self.whole["items"] if item["is"] == "Table" and item["name"] == name)
        return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]

    def findings(self, kind: str) -> list[str]:
        """The findings of this kind."""
        return [
            item["text"] for item in self.whole["items"] if item["is"] == "Finding" and item["kind"] == kind
        ]


@pytest.fixture
def quick(hushmq: Hushmq, tmp_path: Path) -> Callable[..., Result]:
    """Run one section with --quick, and read what it wrote; its published record must not be older than it."""

    def run(name: str, *more: object) -> Result:
        out = tmp_path / "results"
        answer = hushmq("evaluate", name, "--quick", "--out", out, "--data", DATA, "--json", *more)
        assert answer.code == 0, answer.err
        (section,) = answer.json["sections"]
        assert section["status"] == "done", section
        for file in section["files"]:
            assert (out / file).stat().st_size > 0
        whole = json.loads((out / f"{name}.json").read_text())
        made = Result(out, whole)
        record = None if more or made.findings("skipped") else read().get(name)
        if record is not None and (why := stale(record, whole)):
            pytest.fail(f"docs/results.md is older than the code: {why}. `make results` runs what is stale")
        return made

    return run
