"""Log lines are formatted for people on a terminal and are JSON elsewhere."""

from __future__ import annotations

import io
import json
from typing import Literal

import pytest

from hushmq.broker.service.log import LEVELS, logger


class Terminal(io.StringIO):
    """A text stream whose isatty() is true."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("form", "to", "pretty"),
    [
        ("auto", io.StringIO, False),
        ("auto", Terminal, True),
        ("json", Terminal, False),
        ("console", io.StringIO, True),
    ],
)
def test_an_event_is_one_line_for_whoever_reads_it(
    form: Literal["auto", "console", "json"], to: type[io.StringIO], pretty: bool
) -> None:
    output = to()
    logger("info", form, output).bind(stream="motion").warning("clock_set_back", next_tick=7)
    (line,) = output.getvalue().splitlines()
    if pretty:
        assert "clock_set_back" in line
        assert not line.startswith("{")
    else:
        said = json.loads(line)
        assert said.pop("timestamp").endswith("Z")
        assert said == {"event": "clock_set_back", "level": "warning", "stream": "motion", "next_tick": 7}


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_below_the_level_is_not_written(level: str) -> None:
    output = io.StringIO()
    log = logger(level, "json", output)
    for each in LEVELS:
        getattr(log, each)("said")
    said = [json.loads(line)["level"] for line in output.getvalue().splitlines()]
    assert said == list(LEVELS[LEVELS.index(level) :])
