"""The real recordings, which are no part of the distribution: they lie beside the repository, in ../shared/data.

A test that reads them is marked `needs_data`. Where the folder is absent the test is skipped with that reason, unless
HUSHMQ_RECORDINGS=required, as `.ci/run` sets it where there is a ../shared: then the test runs, and fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
REQUIRED = "HUSHMQ_RECORDINGS"

needs_data = pytest.mark.needs_data


def missing() -> str | None:
    """Why a test that needs the recordings is to be skipped; None where it is to be run."""
    if DATA.is_dir() or os.environ.get(REQUIRED) == "required":
        return None
    return f"the recordings are not at {DATA}"
