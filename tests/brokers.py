"""Which brokers this machine has."""

from __future__ import annotations

import os

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.mosquitto import executable


def has_mosquitto() -> bool:
    try:
        executable()
    except Problem:
        return False
    return True


def require_mosquitto() -> None:
    """Go on where Mosquitto can be run; elsewhere skip with the reason, or fail with CI=true."""
    try:
        executable()
    except Problem as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(problem))
