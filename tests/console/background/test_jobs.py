"""Jobs in processes of their own: one of a name at a time."""

from __future__ import annotations

import asyncio

import pytest

from hushmq.console.background.jobs import Job, Jobs

REFUSED = {"push": ["--broker", "mqtt://127.0.0.1:1", "--dry-run"], "payload": "{}"}


def test_a_job_about_something_else_takes_the_place_of_the_one_that_runs() -> None:
    """What is shown is never the preview of another policy; without being asked for anew, the first goes on."""

    async def scene() -> None:
        jobs = Jobs(lambda: None)
        first = jobs.start("preview", "ann", REFUSED)
        assert jobs.start("preview", "bob", REFUSED) is first
        second = jobs.start_anew("preview", "bob", REFUSED)
        assert jobs.last["preview"] is second
        while first.running or second.running:
            await asyncio.sleep(0.02)
        assert (first.code, first.said) == (None, [])
        assert second.code == 2
        assert len(second.said) == 1
        await jobs.stop()

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_progress_goes_on_within_a_stream() -> None:
    """A site with one large stream does not stand at nothing for minutes."""
    job = Job("verify", "ann")
    assert job.progress == 0.0
    said: list[tuple[dict[str, object], float]] = [
        ({"streams": ["motion", "log"]}, 0.0),
        ({"part": 0.5}, 0.25),
        ({"stream": "motion", "passed": True}, 0.25),
        ({"part": 0.99}, 0.495),
        ({"done": "motion"}, 0.5),
        ({"done": "log"}, 1.0),
    ]
    for line, progress in said:
        job.said.append(line)
        assert job.progress == pytest.approx(progress)
