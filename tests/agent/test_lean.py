"""A device imports what it needs."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from hushmq.agent.lean import import_lean
import_lean()
spared = {"asyncio", "rich", "http.client", "email", "zipfile", "cryptography", "numpy"} & set(sys.modules)
assert not spared, spared
import asyncio, importlib.metadata, urllib.request
assert importlib.metadata.version("hushmq")
assert urllib.request.getproxies() is not None
assert asyncio.run(asyncio.sleep(0, "slept")) == "slept"
from hushmq.broker.service.log import logger
logger("info", "console").info("works")
"""


def test_what_others_need_is_not_loaded_and_there_afterwards_for_those_who_do() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "works" in done.stderr


GREEDY = """
import sys, types
import hushmq.agent.lean
hushmq.agent.lean._metadata = lambda: types.ModuleType("importlib.metadata")
hushmq.agent.lean.import_lean()
import hushmq.agent.daemon, asyncio, importlib.metadata
assert importlib.metadata.version("hushmq") and asyncio.run
"""


def test_a_library_that_wants_more_than_a_stand_in_has_gets_the_real_one() -> None:
    """A later version of a library must not keep the agent from starting."""
    done = subprocess.run(
        [sys.executable, "-c", GREEDY], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
