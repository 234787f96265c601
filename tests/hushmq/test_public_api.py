"""What users may import from `hushmq`: these names, typed and documented, and loaded only when they are used."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hushmq

ROOT = Path(__file__).parents[2]
NAMES = [
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


def test_the_names() -> None:
    """Nothing is added, renamed or removed by accident; `dir` and `import *` know them."""
    assert hushmq.__all__ == NAMES == sorted(NAMES)
    assert set(NAMES) <= set(dir(hushmq))
    everything: dict[str, object] = {}
    exec("from hushmq import *", everything)  # noqa: S102  # our own words
    assert set(NAMES) <= set(everything)


def test_another_name_is_an_attribute_error() -> None:
    """As of any module, so that hasattr and getattr work."""
    with pytest.raises(AttributeError, match="no attribute 'Nobody'"):
        _ = hushmq.Nobody  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_documented(name: str) -> None:
    """It has a docstring of its own, and so has everything public in a class of ours."""
    found = getattr(hushmq, name)
    assert found.__doc__
    if inspect.isclass(found) and found.__module__.startswith("hushmq.api"):
        public = {key: value for key, value in vars(found).items() if not key.startswith("_")}
        assert [key for key, value in public.items() if not (value.__doc__ or callable(value))] == []


@pytest.mark.parametrize("name", ["AgentStopped", "Problem", "Rejected"])
def test_an_exception_says_when_it_is_raised(name: str) -> None:
    """In one line."""
    assert getattr(hushmq, name).__doc__.startswith("Raised when ")


def loaded(program: str) -> set[str]:
    """The modules that a program has loaded at its end."""
    code = f"{program}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_hushmq_loads_nothing_of_it() -> None:
    """Nor of any library."""
    modules = loaded("import hushmq")
    assert {name for name in modules if name.startswith("hushmq")} == {"hushmq"}
    assert not modules & {"pydantic", "paho", "structlog", "cryptography"}


def test_a_device_needs_no_numpy() -> None:
    """All names can be imported without an extra; a ledger says what it needs when one is opened."""
    heavy = {"numpy", "scipy", "opendp", "sqlalchemy", "matplotlib"}
    assert not loaded(f"from hushmq import {', '.join(NAMES)}") & heavy


PROGRAM = """
from hushmq import *

theta = BinaryTheta.point(0.1, 0.2)
reveal_type(optimal_noise(theta, epsilon=1.0))
reveal_type(loss(theta, BinaryNoise(0.3, 0.3)))
reveal_type(price(theta, [Entry(0, 1, 0.1, 0.1)]).tick)
reveal_type(read_release(b"").frequencies)
reveal_type([release.loss for release in ReleaseReader("mqtt://x", cohort="home")])
with Agent(load_agent_config("agent.toml")) as agent:
    reveal_type(agent.report().streams["presence"].sampled)
with Ledger("ledger.db") as ledger:
    reveal_type(ledger.accounts("presence").public.left)
optimal_noise(CategoricalTheta.point([[0.5, 0.5], [0.5, 0.5]]), epsilon=1.0)  # an adversary it is not offered for
agent.offer("presence", None)  # not a value
"""


@pytest.mark.slow
def test_a_users_program_is_checked(tmp_path: Path) -> None:
    """Under mypy --strict the examples pass, types are known, and two mistakes are found."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    examples = sorted((ROOT / "examples").glob("*.py"))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            str(ROOT / ".mypy_cache" / "user"),
            path,
            *examples,
        ],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line.partition("program.py:")[2] for line in done.stdout.splitlines()]
    revealed = [line.split('"')[1] for line in said if "Revealed type" in line]
    assert revealed == [
        "hushmq.pufferfish.binary.binary_noise.BinaryNoise",
        "float",
        "int | None",
        "tuple[float, ...]",
        "list[float]",
        "int",
        "float | None",
    ]
    errors = [line for line in said if ": error: " in line]
    assert [line.split("[")[-1] for line in errors] == ["call-overload]", "arg-type]"]
    assert [line.split(":")[0] for line in errors] == ["14", "15"]
