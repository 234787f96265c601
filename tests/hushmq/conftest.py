"""The command line as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hushmq.command import Hushmq


@pytest.fixture
def hushmq(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Hushmq:
    return Hushmq(capsys, tmp_path)
