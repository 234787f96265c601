"""A streaming privacy agent for IoT.

The names below are the public API (docs/api.md). Each is imported when it is first used: `import hushmq` loads nothing,
and what a device uses needs no numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hushmq.api.embedded_agent import Agent, AgentConfig, AgentStopped, load_agent_config
    from hushmq.api.ledger_reader import Ledger
    from hushmq.api.privacy_loss import (
        BinaryNoise,
        BinaryTheta,
        CategoricalNoise,
        CategoricalTheta,
        Entry,
        loss,
        optimal_noise,
        price,
    )
    from hushmq.api.release_history import releases
    from hushmq.api.release_reader import Rejected, Release, ReleaseReader, read_release
    from hushmq.broker.contract.problem import Problem

__all__ = [
    "Agent",
    "AgentConfig",
    "AgentStopped",
    "BinaryNoise",
    "BinaryTheta",
    "CategoricalNoise",
    "CategoricalTheta",
    "Entry",
    "Ledger",
    "Problem",
    "Rejected",
    "Release",
    "ReleaseReader",
    "load_agent_config",
    "loss",
    "optimal_noise",
    "price",
    "read_release",
    "releases",
]

_MODULES = {
    "Agent": "hushmq.api.embedded_agent",
    "AgentConfig": "hushmq.api.embedded_agent",
    "AgentStopped": "hushmq.api.embedded_agent",
    "BinaryNoise": "hushmq.api.privacy_loss",
    "BinaryTheta": "hushmq.api.privacy_loss",
    "CategoricalNoise": "hushmq.api.privacy_loss",
    "CategoricalTheta": "hushmq.api.privacy_loss",
    "Entry": "hushmq.api.privacy_loss",
    "Ledger": "hushmq.api.ledger_reader",
    "Problem": "hushmq.broker.contract.problem",
    "Rejected": "hushmq.api.release_reader",
    "Release": "hushmq.api.release_reader",
    "ReleaseReader": "hushmq.api.release_reader",
    "load_agent_config": "hushmq.api.embedded_agent",
    "loss": "hushmq.api.privacy_loss",
    "optimal_noise": "hushmq.api.privacy_loss",
    "price": "hushmq.api.privacy_loss",
    "read_release": "hushmq.api.release_reader",
    "releases": "hushmq.api.release_history",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
