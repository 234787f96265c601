"""Line-based sources: standard input, a serial port, a growing file, a recording."""

from __future__ import annotations

import os
import select
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hushmq.agent.sources.parse_value import LONGEST, Reader, Unreadable
from hushmq.agent.sources.resample import Resampler, Value
from hushmq.agent.watch.arrival_rate import ArrivalRate
from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.link import back_off

POLL_S = 0.2
"""How often a followed file is polled, in seconds."""


class LineSource(ABC):
    """Reads lines on a separate thread and offers their values; reopens its input after any failure."""

    def __init__(self, reader: Reader, resampler: Resampler, log: Any) -> None:
        self.unreadable = 0
        self.trouble: str | None = None
        self._reader, self._resampler, self._log = reader, resampler, log
        self.arrivals: ArrivalRate | None = resampler.arrivals
        self._rest = b""
        self._skipping = False
        self._failures = 0
        self._wake_read, self._wake_write = os.pipe()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()

    def take(self, first: int, last: int) -> list[Value | None]:
        return self._resampler.take(first, last)

    @property
    def silent_s(self) -> int | None:
        return self._resampler.silent_s

    def stop(self) -> None:
        os.write(self._wake_write, b"!")
        self._thread.join(2)
        os.close(self._wake_read)
        os.close(self._wake_write)

    @abstractmethod
    def _read_once(self) -> bool:
        """Open and read until the input ends or `stop`. Returns whether to try again."""

    def _run(self) -> None:
        while not self._stopped(0):
            try:
                if not self._read_once():
                    return
            except Exception as error:  # noqa: BLE001  # a device unplugged raises anything; its text may hold data
                self._fails(_error_text(error))
            self._rest, self._skipping = b"", False
            self._failures += 1
            if self._stopped(back_off(self._failures)):
                return

    def _fails(self, why: str) -> None:
        """Record the failure, and log it if it is a new one."""
        if why != self.trouble:
            self._log.warning("source_failed", source=type(self).__name__, error=why)
        self.trouble = why

    def _works(self) -> None:
        if self.trouble is not None:
            self._log.info("source_recovered", source=type(self).__name__)
        self.trouble = None

    def _stopped(self, wait_s: float) -> bool:
        return bool(select.select([self._wake_read], [], [], wait_s)[0])

    def _readable(self, handle: int) -> bool:
        """Wait for input; False on `stop`."""
        return self._wake_read not in select.select([handle, self._wake_read], [], [])[0]

    def _feed(self, chunk: bytes) -> None:
        """Offer the values of the lines completed by a chunk. An overlong line counts as one unreadable value."""
        self._failures = 0
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if not self._skipping:
                self._offer(line)
            self._skipping = False
        if len(self._rest) > LONGEST:
            self.unreadable += not self._skipping
            self._rest, self._skipping = b"", True

    def _offer(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            value = self._reader.read(line)
        except Unreadable:
            self.unreadable += 1
        else:
            if value is not None:
                self._resampler.offer(value)


class StandardInput(LineSource):
    """Lines from standard input; after its end the last value is held."""

    def _read_once(self) -> bool:
        while self._readable(0):
            chunk = os.read(0, LONGEST)
            if not chunk:
                self._feed(b"\n")
                self._fails("standard input has ended")
                return False
            self._feed(chunk)
        return False


class SerialPort(LineSource):
    """Lines from a serial port, which is reopened after it was unplugged."""

    def __init__(self, port: str, baud: int, reader: Reader, resampler: Resampler, log: Any) -> None:
        self._open = _serial_opener(port, baud)
        super().__init__(reader, resampler, log)

    def _read_once(self) -> bool:
        with self._open() as port:
            self._works()
            while self._readable(port.fileno()):
                chunk = port.read(max(1, port.in_waiting))
                self._feed(chunk)
        return True


def _serial_opener(port: str, baud: int) -> Callable[[], Any]:
    try:
        import serial  # noqa: PLC0415  # an extra: only for those who have a serial port
    except ModuleNotFoundError:
        raise Problem("source.kind: 'serial' needs pyserial: pip install 'hushmq[serial]'") from None
    return lambda: serial.Serial(port, baud, timeout=0)


class FollowedFile(LineSource):
    """Lines appended to a file from now on; a file that is new, replaced or cut short is read from its beginning."""

    def __init__(self, path: Path, reader: Reader, resampler: Resampler, log: Any) -> None:
        self._path = path
        self._at_end = True
        super().__init__(reader, resampler, log)

    def _read_once(self) -> bool:
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            self._at_end = False  # everything in a file created later is new
            raise
        with file:
            if self._at_end:
                file.seek(0, os.SEEK_END)
            self._at_end = False
            self._works()
            while not self._stopped(POLL_S):
                replaced = self._replaced(file.fileno(), file.tell())
                # Checked before reading, so that lines written before the change are not lost.
                while chunk := file.read(LONGEST):
                    self._feed(chunk)
                if replaced:
                    return True
        return False

    def _replaced(self, handle: int, position: int) -> bool:
        """Whether the file was replaced or truncated; a removed one is followed until a new one appears."""
        try:
            there = self._path.stat()
        except FileNotFoundError as error:
            self._fails(_error_text(error))
            return False
        self._works()
        ours = os.fstat(handle)
        return (ours.st_ino, ours.st_dev) != (there.st_ino, there.st_dev) or there.st_size < position


class ReplayedFile:
    """A recording: one line for each tick, from the first line on; after the last one no value is known."""

    trouble: str | None = None
    arrivals: ArrivalRate | None = None
    silent_s = None

    def __init__(self, path: Path, reader: Reader, *, repeat: bool) -> None:
        self.unreadable = 0
        self._reader, self._repeat = reader, repeat
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise Problem(f"source.file: {path}: {error.strerror}") from None

    def take(self, first: int, last: int) -> list[Value | None]:
        return [self._next() for _ in range(first, last + 1)]

    def _next(self) -> Value | None:
        line = self._file.readline()
        if not line and self._repeat:
            self._file.seek(0)
            line = self._file.readline()
        if not line:
            self.trouble = "the recording has ended"
        try:
            return self._reader.read(line.rstrip(b"\n")) if line.strip() else None
        except Unreadable:
            self.unreadable += 1
            return None

    def stop(self) -> None:
        self._file.close()


def _error_text(error: Exception) -> str:
    """The system's text for an error number, which holds no data; for other exceptions the class name."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return type(error).__name__
