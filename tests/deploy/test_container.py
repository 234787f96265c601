"""The container files name existing sources, extras, commands, stages and folders; checked without an engine."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.command import parse

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "container"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if "build" in service}


@dataclass(slots=True)
class Stage:
    """One stage: FROM … AS … and the instructions that follow it."""

    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)


def stages() -> dict[str, Stage]:
    """Return the stages of the Containerfile, in order."""
    text = re.sub(r"\\\n\s*", " ", (FOLDER / "Containerfile").read_text())
    found: dict[str, Stage] = {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            found[name] = Stage(base)
        elif word and not line.startswith("#") and word != "ARG":
            found[list(found)[-1]].instructions.append((word, rest))
    return found


STAGES = stages()
IMAGES = ("agent", "calibrator", "broker")


def instructions(stage: str, word: str) -> list[str]:
    """Return the arguments of an instruction in a stage and the stages it is built from; its own come last."""
    here = STAGES[stage]
    inherited = instructions(here.base, word) if here.base in STAGES else []
    return [*inherited, *(rest for each, rest in here.instructions if each == word)]


def sources() -> set[str]:
    """Return the paths copied from the repository."""
    copied = [rest.split() for rest in instructions("wheel", "COPY")]
    return {name for words in copied for name in words[:-1]}


def test_the_wheel_is_made_from_all_packages() -> None:
    """Every package of the distribution is copied into the builder, and everything copied exists.

    That these sources make a complete wheel is tried in tests/test_packaging.py.
    """
    parts = {link.readlink().name for link in (ROOT / "hushmq").iterdir() if link.is_symlink()}
    assert {"src", "hushmq", *parts} - {"evaluation"} <= sources()
    assert {"pyproject.toml", "README.md", "LICENSE"} <= sources()
    assert [name for name in sources() if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("name", [".containerignore", ".dockerignore"])
def test_the_builder_gets_what_is_copied_and_no_more(name: str) -> None:
    """Everything except the sources of the wheel is ignored: no .git, no environment, no data."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert {line.removeprefix("!") for line in lines if line.startswith("!")} == sources()


@pytest.mark.parametrize("image", IMAGES)
def test_what_an_image_runs_is_a_command(image: str) -> None:
    """Entry point and command together are a valid command line of hushmq; it does not run as root."""
    entry, command = (json.loads(instructions(image, word)[-1]) for word in ("ENTRYPOINT", "CMD"))
    assert entry == ["hushmq"]
    parse(command)
    assert instructions(image, "USER") == ["hushmq"]


@pytest.mark.parametrize("image", IMAGES)
def test_the_health_check_is_a_command(image: str) -> None:
    """A health check is a command of hushmq, or valid Python."""
    (check,) = instructions(image, "HEALTHCHECK")
    words = json.loads(check.removeprefix("CMD "))
    if words[0] == "hushmq":
        parse(words[1:])
    else:
        assert words[:2] == ["python", "-c"]
        compile(words[2], "health check", "exec")


@pytest.mark.parametrize(
    ("image", "extras"),
    [("agent", set[str]()), ("calibrator", {"calibrator", "postgres"}), ("broker", {"broker"})],
)
def test_an_image_installs_the_extras_it_needs(image: str, extras: set[str]) -> None:
    """The agent's image installs no extras, so no numpy; the extras of the others exist."""
    install = instructions(image, "RUN")[-1]
    found = re.search(r"\[([a-z,]+)\]", install)
    assert set(found[1].split(",") if found else []) == extras
    assert extras <= PROJECT["project"]["optional-dependencies"].keys()


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_built_from_its_stage(name: str) -> None:
    """The build context is the repository, the file exists, and the stage exists and has the service's name."""
    build = OURS[name]["build"]
    context = (FOLDER / build["context"]).resolve()
    assert context == ROOT
    assert (context / build["dockerfile"]).samefile(FOLDER / "Containerfile")
    assert build["target"] == name
    assert name in STAGES


@pytest.mark.parametrize("name", OURS)
def test_a_service_is_confined(name: str) -> None:
    """No core files (they hold raw states), no capabilities, a read-only root, an unprivileged user."""
    service = OURS[name]
    assert service["ulimits"] == {"core": 0}
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert "HUSHMQ_USER" in service["user"]


def test_mounts_are_where_the_commands_expect_them() -> None:
    """Settings are in /etc/hushmq, state in /var/lib/hushmq; files mounted from the repository exist."""
    for name, service in OURS.items():
        inside = [volume.split(":")[1] for volume in service["volumes"]]
        command = json.loads(instructions(name, "CMD")[-1])
        assert any(command[-1].startswith(path) for path in inside), name
        assert any("/var/lib/hushmq" in path for path in inside), name
    for name, service in COMPOSE["services"].items():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            if source.startswith("../"):
                assert (FOLDER / source).is_dir(), (name, volume)
            elif not source.startswith("./"):
                assert source in COMPOSE["volumes"], (name, volume)


def test_dependencies_and_scraped_hosts_are_services() -> None:
    """`depends_on` and Prometheus's targets name services of this file."""
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("depends_on", [])) <= set(services)
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    hosts = [
        target.split(":")[0]
        for job in scraped["scrape_configs"]
        for group in job["static_configs"]
        for target in group["targets"]
    ]
    assert set(hosts) == {"calibrator", "agent"}
    assert set(hosts) <= set(services)
