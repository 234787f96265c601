"""Dependencies point one way, and a device installs little."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALLOWED = {
    "pufferfish": {"pufferfish"},
    "broker": {"broker", "pufferfish"},
    "agent": {"agent", "broker", "pufferfish"},
    "calibrator": {"calibrator", "broker", "pufferfish"},
}
OURS = {"hushmq", "pufferfish", "agent", "broker", "calibrator", "evaluation"}
EFFECTS = {"socket", "threading", "time", "logging", "structlog", "sqlite3", "subprocess", "tomllib", "paho"}


def imports(path: Path) -> set[str]:
    """The parts of our code and the packages that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {part(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(part(node.module))
    return found


def part(module: str) -> str:
    """The part of our code that a module is in, or the package it is of."""
    top, *rest = module.split(".")
    return rest[0] if top == "hushmq" and rest and rest[0] in OURS else top


@pytest.mark.parametrize("package", ALLOWED)
def test_dependencies_point_one_way(package: str) -> None:
    """Agent and calibrator use broker and pufferfish; nothing uses agent or calibrator."""
    files = list((ROOT / package).rglob("*.py"))
    assert files
    for file in files:
        assert imports(file) & OURS <= ALLOWED[package], file


def test_the_mathematics_is_pure() -> None:
    """Pufferfish has no clock, network, thread, log or configuration."""
    for file in (ROOT / "pufferfish").rglob("*.py"):
        assert not imports(file) & EFFECTS, file


LIGHT = [
    "hushmq.pufferfish.binary.stream_loss",
    "hushmq.pufferfish.binary.binary_timeline",
    "hushmq.pufferfish.binary.amplification",
    "hushmq.pufferfish.noise.perturber",
    "hushmq.pufferfish.noise.discrete_laplace",
    "hushmq.pufferfish.papers.cgssy",
    "hushmq.pufferfish.categorical.contraction",
    "hushmq.pufferfish.categorical.emission",
    "hushmq.pufferfish.categorical.categorical_timeline",
]


@pytest.mark.parametrize(
    "module",
    [
        *LIGHT,
        "hushmq.agent.agent_commands",
        "hushmq.agent.daemon",
        "hushmq.broker.commands.broker_commands",
        "hushmq.broker.mqtt.connection",
        "hushmq.__main__",
    ],
)
def test_what_a_device_runs_needs_no_numpy(module: str) -> None:
    """The agent and the mathematics it checks settings with import neither numpy nor anything of an extra."""
    heavy = ["numpy", "scipy", "opendp", "sqlalchemy", "matplotlib"]
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_a_device_installs_four_packages() -> None:
    """MQTT, messages, events, signatures: everything else is an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {requirement.split(">")[0] for requirement in project["dependencies"]}
    assert names == {"paho-mqtt", "pydantic", "structlog", "cryptography"}
    assert {"calibrator", "postgres", "evaluation", "dev"} <= set(project["optional-dependencies"])
