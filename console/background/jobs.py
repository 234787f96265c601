"""Work that takes long, in a process of its own with low priority: the console answers meanwhile, and stays small."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

WORKER = "hushmq.console.background.ledger_worker"


@dataclass(slots=True)
class Job:
    """A run of the worker: what it has said so far, and how it ended."""

    name: str
    by: str
    began: float = field(default_factory=time.time)
    ended: float | None = None
    code: int | None = None
    said: list[dict[str, Any]] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return self.ended is None

    @property
    def checks(self) -> list[dict[str, Any]]:
        return [one for one in self.said if "passed" in one]

    @property
    def wrong(self) -> list[dict[str, Any]]:
        return [one for one in self.checks if not one["passed"]]

    @property
    def right(self) -> bool:
        """Whether it came to an end and every check passed; a job that failed shows nothing."""
        return self.code == 0 and bool(self.checks) and not self.wrong

    @property
    def streams(self) -> list[str]:
        return next((one["streams"] for one in self.said if "streams" in one), [])

    @property
    def progress(self) -> float:
        """The share of the streams that are done, with what is done of the present one."""
        done = sum("done" in one for one in self.said)
        parts = (one.get("part", 0.0) for one in reversed(self.said) if "done" in one or "part" in one)
        return (done + float(next(parts, 0.0))) / len(self.streams) if self.streams else 0.0


class Jobs:
    """The last job of each name; one of a name runs at a time."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self.last: dict[str, Job] = {}
        self._tasks: dict[asyncio.Task[None], Job] = {}

    def start(self, name: str, by: str, request: dict[str, Any]) -> Job:
        """Start a job, unless one of this name runs."""
        known = self.last.get(name)
        if known is not None and known.running:
            return known
        job = self.last[name] = Job(name, by)
        task = asyncio.create_task(self._run(job, {"job": name, **request}))
        self._tasks[task] = job
        task.add_done_callback(self._tasks.pop)
        return job

    def start_anew(self, name: str, by: str, request: dict[str, Any]) -> Job:
        """Start a job; one of this name that runs was about something else, and is ended."""
        self.forget(name)
        return self.start(name, by, request)

    def forget(self, name: str) -> None:
        """End a job, and forget what it said."""
        known = self.last.pop(name, None)
        for task, job in self._tasks.items():
            if job is known:
                task.cancel()
                job.ended = time.time()  # also of one that has not begun

    async def _run(self, job: Job, request: dict[str, Any]) -> None:
        with TemporaryDirectory(prefix="hushmq-console-") as folder:
            try:
                await self._follow(job, *_command(request, Path(folder)))
            finally:
                job.ended = time.time()
                self._changed()

    async def _follow(self, job: Job, words: list[str], given: bytes) -> None:
        """Run a command at low priority, with something on its standard input, and keep what it prints."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *("nice", "-n", "10", sys.executable, "-P", "-m", *words),
            stdin=pipe,
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT if given == b"" else None,
            limit=2**24,
        )
        try:
            if process.stdin is not None and process.stdout is not None:
                process.stdin.write(given)
                process.stdin.close()
                async for line in process.stdout:
                    text = line.decode(errors="replace").rstrip("\n")
                    job.said.append(json.loads(text) if given else {"line": text})
                    self._changed()
            job.code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def stop(self) -> None:
        """End all jobs."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _command(request: dict[str, Any], folder: Path) -> tuple[list[str], bytes]:
    """The module to run with its arguments, and its standard input.

    The worker's request goes by standard input: a database's URL may hold a password, and arguments are seen by all.
    """
    if "push" in request:
        file = folder / "policy.json"
        file.write_text(request["payload"], encoding="utf-8")
        return ["hushmq", "push", str(file), *request["push"]], b""
    return [WORKER], json.dumps(request).encode()
