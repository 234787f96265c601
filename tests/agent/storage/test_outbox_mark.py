"""The mark: a second copy that a crash at any moment leaves whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hushmq.agent.storage.outbox_mark import Mark, StreamMark, replace_durably

SOME = StreamMark(
    period_ms=500, watermark=7, reserved=17, sampled=5, dropped=1, buffered=2, waiting=((6, 7),)
)


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    mark = Mark(tmp_path)
    assert mark.read() == {}
    for watermark in range(7, 12):
        mark.write({"motion": replace(SOME, watermark=watermark)})
        assert Mark(tmp_path).read() == {"motion": replace(SOME, watermark=watermark)}


@pytest.mark.parametrize("damage", [b"", b"12 zz\n{}\n", b"99 00000000\n{}\n", b"\xff" * 50])
def test_a_torn_copy_is_passed_over_for_the_one_before(tmp_path: Path, damage: bytes) -> None:
    mark = Mark(tmp_path)
    mark.write({"motion": SOME})
    mark.write({"motion": replace(SOME, watermark=8)})
    mark.write({"motion": replace(SOME, watermark=9)})
    (tmp_path / "mark.1").write_bytes(damage)
    assert Mark(tmp_path).read()["motion"].watermark == 8


def test_after_a_power_cut_the_forced_copy_still_reserves_every_used_tick(tmp_path: Path) -> None:
    """Both unforced copies gone: the third reserves up to a tick that no used one is above."""
    mark = Mark(tmp_path, reserve_ms=5_000)
    highest = 0
    for watermark in range(0, 95, 3):
        reserved = mark.reserve("motion", 500, watermark)
        mark.write({"motion": replace(SOME, watermark=watermark, reserved=reserved)})
        highest = watermark
        survivor = Mark(tmp_path)
        for name in ("mark.0", "mark.1"):
            (tmp_path / name).rename(tmp_path / f"{name}.hidden") if (tmp_path / name).exists() else None
        assert survivor.read()["motion"].reserved >= highest
        for name in ("mark.0", "mark.1"):
            (tmp_path / f"{name}.hidden").rename(tmp_path / name) if (
                tmp_path / f"{name}.hidden"
            ).exists() else None


def test_a_replaced_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    replace_durably(path, b"old")
    replace_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
