"""Line-based sources, on real pipes, files and pseudo-terminals."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from hushmq.agent.sources.line_source import FollowedFile, ReplayedFile, SerialPort
from hushmq.agent.sources.parse_value import LONGEST, Reader
from hushmq.agent.sources.resample import Resampler, Value
from hushmq.agent.sources.tick import Clock
from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.log import logger
from tests.agent.peer import wait_until

LOG = logger("debug", "json", io.StringIO())


class Kept(Resampler):
    """A resampler that also records the offered values."""

    def __init__(self) -> None:
        super().__init__(Clock(), 100, 1000)
        self.values: list[Value] = []

    def offer(self, value: Value) -> None:
        self.values.append(value)


@pytest.mark.slow
def test_a_followed_file_gives_what_is_appended_from_now_on(tmp_path: Path) -> None:
    """Old lines are not replayed; a file cut short or replaced is read from its beginning."""
    path, kept = tmp_path / "values", Kept()
    path.write_text("1\n2\n")
    source = FollowedFile(path, Reader(), kept, LOG)
    try:
        wait_until(lambda: not source._at_end)
        with path.open("a") as file:
            file.write("3\n4")
            file.flush()
            wait_until(lambda: kept.values == [3.0])
            file.write("5\nmarker\n")
        wait_until(lambda: kept.values == [3.0, 45.0])
        path.write_text("6\n")
        wait_until(lambda: kept.values == [3.0, 45.0, 6.0])
        (tmp_path / "fresh").write_text("7\n")
        (tmp_path / "fresh").rename(path)
        wait_until(lambda: kept.values == [3.0, 45.0, 6.0, 7.0])
        assert source.unreadable == 1
    finally:
        source.stop()


@pytest.mark.slow
def test_nothing_is_lost_when_a_file_is_rotated(tmp_path: Path) -> None:
    """The writer continues in the renamed file until it opens the new one: both are read, in this order."""
    path, kept = tmp_path / "values", Kept()
    with path.open("a") as old:
        source = FollowedFile(path, Reader(), kept, LOG)
        try:
            wait_until(lambda: not source._at_end)
            path.rename(tmp_path / "values.1")
            wait_until(lambda: source.trouble == "no such file or directory")
            old.write("1\n")
            old.flush()
            wait_until(lambda: kept.values == [1.0])
            old.write("2\n")
            old.flush()
            path.write_text("3\n")
            wait_until(lambda: kept.values == [1.0, 2.0, 3.0])
            assert source.trouble is None
        finally:
            source.stop()


def test_a_file_that_is_not_there_yet_is_waited_for_and_read_from_its_beginning(tmp_path: Path) -> None:
    """A missing file is logged once, however often it is polled."""
    path, kept, log = tmp_path / "values", Kept(), io.StringIO()
    source = FollowedFile(path, Reader("label"), kept, logger("debug", "json", log))
    try:
        wait_until(lambda: source._failures >= 2)
        path.write_text("open\n")
        wait_until(lambda: kept.values == ["open"])
        assert log.getvalue().count("no such file or directory") == 1
        assert log.getvalue().count("source_recovered") == 1
    finally:
        source.stop()


def test_a_recording_gives_one_line_a_tick_and_then_gaps(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    path.write_text("1\n\nx\n4\n")
    once = ReplayedFile(path, Reader(), repeat=False)
    assert once.take(10, 15) == [1.0, None, None, 4.0, None, None]
    assert once.unreadable == 1
    once.stop()
    again = ReplayedFile(path, Reader(), repeat=True)
    assert again.take(0, 7) == [1.0, None, None, 4.0] * 2
    again.stop()
    with pytest.raises(Problem, match=r"source\.file: .*No such file"):
        ReplayedFile(tmp_path / "absent", Reader(), repeat=False)


def test_a_serial_port_is_read_and_opened_again_when_it_went_away(tmp_path: Path) -> None:
    """The port is a link to a pseudo-terminal; unplugging closes it, plugging in creates another."""
    kept, link = Kept(), tmp_path / "ttyUSB0"

    def plug() -> int:
        ours, theirs = pty.openpty()
        link.unlink(missing_ok=True)
        link.symlink_to(os.ttyname(theirs))
        os.close(theirs)
        return ours

    ours = plug()
    source = SerialPort(str(link), 115_200, Reader("json", "t"), kept, LOG)
    try:

        def says(ours: int, text: bytes, values: list[Value]) -> None:
            def arrived() -> bool:
                if kept.values[-len(values) :] != values:
                    os.write(ours, text)
                return kept.values[-len(values) :] == values

            wait_until(arrived)

        says(ours, b'{"t":1}\n', [1])
        os.close(ours)
        ours = plug()
        says(ours, b'{"t":2}\r\n', [2])
        assert (
            source._failures == 0
        )  # a port that worked is reopened soon, however often it disappeared before
    finally:
        source.stop()
        os.close(ours)


@pytest.mark.slow
def test_standard_input_may_end_and_a_long_line_is_one_unreadable_value() -> None:
    """Run as a separate process, because standard input belongs to the process."""
    code = """
import sys, time
from tests.agent.sources.test_line_source import Kept, LOG
from hushmq.agent.sources.line_source import StandardInput
from hushmq.agent.sources.parse_value import Reader
kept = Kept()
source = StandardInput(Reader(), kept, LOG)
source._thread.join(10)
print(kept.values, source.unreadable)
source.stop()
"""
    text = b"1\n2.5\n" + b"9" * (3 * LONGEST) + b"\n\nmarker\n7"
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, check=True, timeout=20
    )
    assert done.stdout.decode() == "[1.0, 2.5, 7.0] 2\n"
