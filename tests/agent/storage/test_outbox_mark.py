"""The mark: a second copy that stays intact after a crash at any moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

from hushmq.agent.storage.outbox_mark import Mark, StreamMark, replace_durably
from hushmq.broker.contract.problem import Problem

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


@pytest.mark.parametrize("fields", ["", '"dropped":1,"added":2,'])
def test_a_whole_copy_with_other_fields_is_refused(tmp_path: Path, fields: str) -> None:
    """An intact copy with unknown fields is of another version; ignoring it could use ticks twice."""
    mark = Mark(tmp_path)
    mark.write({"motion": SOME})
    turn = b"2"
    body = (tmp_path / "mark.1").read_bytes().splitlines()[1].replace(b'"dropped":1,', fields.encode())
    content = b"%s %08x\n%s\n" % (turn, crc32(turn + b" " + body), body)
    (tmp_path / "mark.0").write_bytes(content)
    with pytest.raises(Problem, match=r"^folder: .*mark\.0 was written by another version"):
        Mark(tmp_path).read()


def test_after_a_power_cut_the_forced_copy_still_reserves_every_used_tick(tmp_path: Path) -> None:
    """Without the two copies that are not synced, the third reserves all used ticks."""
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
