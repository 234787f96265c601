"""The bar."""

from __future__ import annotations

import pytest

from hushmq.commands.progress_bar import bar


def test_nothing_is_drawn_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard error that is no terminal stays clean."""
    show = bar("working")
    show(0.5)
    assert capsys.readouterr().err == ""


def test_the_bar_fills_and_goes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Half is half of the bar; at the end the line is cleared."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show = bar("working")
    show(0.5)
    assert capsys.readouterr().err == f"\rworking [{'█' * 15}{' ' * 15}]  50%"
    show(1.0)
    assert capsys.readouterr().err.endswith("\r\x1b[K")
