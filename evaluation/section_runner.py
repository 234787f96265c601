"""Run sections one after the other and write what they yield."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hushmq.evaluation import results_folder as folder
from hushmq.evaluation.evaluation_progress import Watcher
from hushmq.evaluation.results_folder import Made
from hushmq.evaluation.section_list import SECTIONS, Job, Missing
from hushmq.evaluation.section_report import Item

OURS = frozenset({"hushmq", "pufferfish", "agent", "broker", "calibrator", "evaluation"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run, and where results go."""

    names: Sequence[str]
    quick: bool
    seed: int
    data: Path
    out: Path


def run(plan: Plan, watcher: Watcher) -> Iterator[tuple[Made, list[Path]]]:
    """Each section as it is done, with its files: what is finished is kept whatever happens to the next."""
    for name in plan.names:
        watcher.begin(name)
        made = _one(name, plan, watcher)
        files = folder.write(made, plan.out)
        outcome = f"skipped: {made.reason}" if made.reason else f"{made.seconds:.1f} s, {len(files)} files"
        watcher.end(name, outcome)
        yield made, files


def _one(name: str, plan: Plan, watcher: Watcher) -> Made:
    started = time.monotonic()
    about, reason, items = "", "", list[Item]()
    try:
        module = SECTIONS[name].load()
        about = module.ABOUT
        items.extend(module.run(Job(name, plan.quick, plan.seed, plan.data, watcher.progress)))
    except Missing as missing:
        reason = str(missing)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in OURS:
            raise
        reason = f"it needs {error.name}, which is not installed"
    return Made(
        name=name,
        title=SECTIONS[name].title,
        about=about,
        status="skipped" if reason else "done",
        reason=reason,
        quick=plan.quick,
        seed=plan.seed,
        seconds=time.monotonic() - started,
        versions=folder.versions(),
        items=() if reason else items,
    )
