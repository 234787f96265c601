"""constraints.txt, which `make` installs from: complete, agreeing with pyproject.toml, and free of addresses."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import Environment, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINES = [
    line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")
]
RENEW = "run `make lock ARGS=--no-upgrade`"
EXTRA = "dev"


def asked(extra: str) -> Iterator[Requirement]:
    """What the project needs with an extra, the extras of its own that this one names included."""
    project = PROJECT["project"]
    for text in (*project["dependencies"], *project["optional-dependencies"][extra]):
        requirement = Requirement(text)
        if requirement.name != project["name"]:
            yield requirement
        for own in requirement.extras if requirement.name == project["name"] else ():
            yield from asked(own)


def environment(python: str, machine: str) -> Environment:
    found = default_environment()
    found.update(
        python_version=python,
        python_full_version=f"{python}.9",
        platform_machine=machine,
    )
    return found


def pins(at: Environment) -> dict[str, Version]:
    """By name, the version that is installed in an environment."""
    found: dict[str, Version] = {}
    for line in LINES:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(dict(at)):
            (pin,) = requirement.specifier
            name = canonicalize_name(requirement.name)
            assert name not in found, f"{name} has two versions on {at}"
            found[name] = Version(pin.version)
    return found


def test_a_line_is_a_name_and_a_version() -> None:
    """No index, no address, no path, no version that only one machine has."""
    for line in LINES:
        assert re.fullmatch(r"[a-z0-9.-]+==[0-9][0-9a-z.]*( ; .*)?", line), line
        assert "/" not in line


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "armv7l"])
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_everything_asked_for_has_a_version_that_will_do(python: str, machine: str) -> None:
    """On each Python and machine; the tool that builds the package too."""
    at = environment(python, machine)
    found = pins(at)
    built = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
    for requirement in (*asked(EXTRA), *built):
        name = canonicalize_name(requirement.name)
        assert name in found, f"pyproject.toml asks for {name}, constraints.txt has none: {RENEW}"
        assert found[name] in requirement.specifier, f"constraints.txt has {name} {found[name]}: {RENEW}"


def test_what_those_need_has_a_version_too() -> None:
    """Every library installed here, and what it needs in turn: nothing comes as new as it happens to be."""
    at = default_environment()
    found = pins(at)
    waiting = {(canonicalize_name(one.name), extra) for one in asked(EXTRA) for extra in ("", *one.extras)}
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = one = waiting.pop()
        seen.add(one)
        assert name in found, f"constraints.txt has no {name}: {RENEW}"
        try:
            needed = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:
            continue
        for requirement in needed:
            if requirement.marker is None or requirement.marker.evaluate({**at, "extra": extra}):
                extras = ("", *requirement.extras)
                waiting |= {(canonicalize_name(requirement.name), own) for own in extras} - seen
