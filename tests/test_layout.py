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
    """The top-level packages that a file imports anywhere."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


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
    "pufferfish.binary",
    "pufferfish.timeline",
    "pufferfish.amplification",
    "pufferfish.draw",
    "pufferfish.laplace",
    "pufferfish.cgssy",
    "pufferfish.contraction",
    "pufferfish.emission",
    "pufferfish.timeline_intervals",
]


@pytest.mark.parametrize(
    "module", [*LIGHT, "agent.cli", "agent.daemon", "broker.cli", "broker.connection", "hushmq.__main__"]
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
