"""Log events have one form everywhere: a snake_case string literal, with fields beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.documents import log_events
from hushmq.documents.log_events import MEANINGS, PACKAGES, PROGRAMS, SNAKE_CASE, LogCall, log_calls


@pytest.fixture(scope="module")
def calls() -> list[LogCall]:
    """Every call, found once: parsing all modules takes seconds."""
    return [call for package in PACKAGES for call in log_calls(package)]


def test_an_event_is_a_snake_case_literal(calls: list[LogCall]) -> None:
    """No f-string, no sentence, nothing computed: a literal, a module's constant, or a choice between literals."""
    wrong = [
        f"{call.path}:{call.line}"
        for call in calls
        if not (call.events and all(SNAKE_CASE.fullmatch(event) for event in call.events))
    ]
    assert wrong == []


def test_every_program_logs(calls: list[LogCall]) -> None:
    """The scan finds calls in every program that logs, and nowhere else."""
    packages = {call.path.parts[0] for call in calls}
    assert packages == set(PROGRAMS)
    assert len(calls) >= 40


def test_every_event_is_explained(calls: list[LogCall]) -> None:
    """Each event has a meaning in the document, and no meaning is left over."""
    assert {event for call in calls for event in call.events} == set(MEANINGS)


@pytest.mark.parametrize(
    ("line", "events"),
    [
        ('log.info("released", entry=1)', ("released",)),
        ("log.info(EVENT)", ("adopted",)),
        ('self._log.warning("up" if up else "down")', ("up", "down")),
        ('log.bind(stream=name).error("over_budget")', ("over_budget",)),
        ('log.info(f"clock set {way}")', ()),
        ("log.info(event)", ()),
        ('log.info("up" if up else f"{down}")', ()),
    ],
)
def test_what_counts_as_a_literal(
    line: str, events: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Literals, constants of the module and choices between them are found; everything else has no event."""
    monkeypatch.setattr(log_events, "ROOT", tmp_path)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "one.py").write_text(f'EVENT = "adopted"\n\n\ndef f():\n    {line}\n')
    (call,) = log_calls("agent")
    assert call.events == events


def test_fields_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keyword arguments are fields, and so are the keys of a dictionary that is unpacked."""
    monkeypatch.setattr(log_events, "ROOT", tmp_path)
    (tmp_path / "agent").mkdir()
    source = 'def f():\n    where = {"stream": 1, "window": 2}\n    log.info("released", **where, loss=3)\n'
    (tmp_path / "agent" / "one.py").write_text(source)
    (call,) = log_calls("agent")
    assert call.fields == ("stream", "window", "loss")


def test_other_methods_are_no_log_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument parser's error is not a log line."""
    monkeypatch.setattr(log_events, "ROOT", tmp_path)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "one.py").write_text('def f():\n    parser.error("give a file")\n')
    assert list(log_calls("agent")) == []
