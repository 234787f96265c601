"""What the documents show can be typed: commands parse, settings files are right."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hushmq.agent.agent_config import Config as AgentConfig
from hushmq.agent.sources.source_config import SimulateStates
from hushmq.broker.commands.push_command import ROOM
from hushmq.broker.commands.push_plan import plan_streams
from hushmq.broker.commands.push_words import words_of
from hushmq.broker.commands.rollout import Received
from hushmq.broker.contract.messages import MAX_PAYLOAD_BYTES
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import CategoricalThetaMessage, theta_message
from hushmq.calibrator.calibrator_config import Config as CalibratorConfig
from tests.agent.peer import write_config
from tests.deploy.command import parse

ROOT = Path(__file__).parents[1]
BY_HAND = ROOT / "deploy" / "README.md"
PAGES = [ROOT / "README.md", BY_HAND]
KEY = str(PrivateKey(b"k" * 32).public)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Every hushmq command in the page's shell blocks, as words."""
    found = []
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"; |\$\(|\)", line):
                words = shlex.split(part, comments=True)
                if words[:1] == ["hushmq"]:
                    found.append(words[1:])
    return found


COMMANDS = [
    pytest.param(words, id=" ".join(words))
    for page in PAGES
    for words in commands(page)
    if "--help" not in words
]


def test_there_are_commands() -> None:
    """The pages are read as they are meant: a dozen commands at least."""
    assert len(COMMANDS) > 12


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_is_taken(words: list[str]) -> None:
    """A reader who types it is not told that it is none."""
    parse(words)


def settings(first: str) -> dict[str, Any]:
    """The settings file, set up by hand, that begins with a setting, its keys filled in."""
    (text,) = (block for block in blocks(BY_HAND, "toml") if block.startswith(first))
    return tomllib.loads(text.replace("…", KEY))


def test_the_policy_is_one() -> None:
    """As `hushmq push` reads it."""
    (text,) = (block for block in blocks(BY_HAND, "toml") if "[streams.presence]" in block)
    Policy.model_validate_json(json.dumps(tomllib.loads(text) | {"version": 1}))


def test_the_policy_of_three_states_means_what_the_page_shows() -> None:
    """What docs/states.md shows is what `hushmq push` says of the policy above it, line by line."""
    page = ROOT / "docs" / "states.md"
    text, source = blocks(page, "toml")
    policy = Policy.model_validate_json(json.dumps(tomllib.loads(text) | {"version": 1}))
    (shown,) = re.findall(r"^```\n\$ hushmq push[^\n]*\n(.*?)```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert shown.splitlines() == words_of(policy, Received(), plan_streams(policy, Received()))
    chain = tomllib.loads(source)["streams"]["activity"]["source"]
    simulated = SimulateStates.model_validate_json(json.dumps(chain))
    floor = policy.streams["activity"].theta.floor
    assert floor.contains(CategoricalThetaMessage(low=simulated.transition, high=simulated.transition))


@pytest.mark.parametrize(("k", "fits"), [(36, True), (45, False)])
def test_messages_hold_as_many_states_as_the_page_says(k: int, *, fits: bool) -> None:
    """About 40: an account has Θ in it twice, both directions with all their digits."""
    low, high = (
        tuple(tuple((stay if u == x else move / k) + 1e-5 / 7 for u in range(k)) for x in range(k))
        for stay, move in ((0.3, 0.1), (0.7, 1.9))
    )
    told = theta_message(CategoricalThetaMessage(low=low, high=high).chains)
    assert (2 * len(told.model_dump_json()) <= MAX_PAYLOAD_BYTES - ROOM) == fits


def test_the_agents_settings_are_right() -> None:
    """As `hushmq agent check-config` reads them."""
    AgentConfig.model_validate(settings("device ="))


def test_the_calibrators_settings_are_right() -> None:
    """As `hushmq calibrator check-config` reads them."""
    text = next(block for block in blocks(BY_HAND, "toml") if "database =" in block)
    CalibratorConfig.model_validate(tomllib.loads(text.replace("…", KEY)))


def test_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands, beside a settings file whose stream takes offered values; no broker answers."""
    path = write_config(tmp_path, source='kind = "offer"')
    path.write_text(path.read_text().replace("streams.motion", "streams.presence"))
    monkeypatch.chdir(tmp_path)
    (program,) = blocks(ROOT / "README.md", "python")
    exec(program, {})  # noqa: S102  # our own words
    assert capsys.readouterr().out == "not connected yet: samples wait in the outbox\n"
