"""The Home Assistant add-on: its options make a site, by a command that exists."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import yaml

from hushmq.__main__ import main

FOLDER = Path(__file__).parents[2] / "deploy" / "home-assistant" / "add-on"
CONFIG = yaml.safe_load((FOLDER / "config.yaml").read_text())
RUN: dict[str, Any] = runpy.run_path(str(FOLDER / "run.py"))


def test_every_option_is_described_and_used() -> None:
    """The supervisor shows what the schema has; the site is made from all of it."""
    assert set(CONFIG["options"]) == set(CONFIG["schema"]) == set(RUN["ASKED"])


def test_the_default_options_make_a_site(tmp_path: Path) -> None:
    """What the add-on runs at its first start succeeds, and the policy has the options' states."""
    program, *words = RUN["init_command"](CONFIG["options"])
    assert program == "hushmq"
    site = tmp_path / "site"
    assert main([str(site) if word == "/data/site" else word for word in words]) == 0
    assert json.dumps(CONFIG["options"]["states"].split(",")) in (site / "policy.toml").read_text()
