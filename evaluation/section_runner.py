"""Runs sections one after the other and writes their output."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hushmq.evaluation import results_folder as folder
from hushmq.evaluation.evaluation_progress import ProgressListener
from hushmq.evaluation.results_folder import SectionResult
from hushmq.evaluation.section_list import SECTIONS, Job, Missing
from hushmq.evaluation.section_report import Item

OURS = frozenset({"hushmq", "pufferfish", "agent", "broker", "calibrator", "evaluation"})


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """The sections to run, and the results folder."""

    names: Sequence[str]
    quick: bool
    seed: int
    data: Path
    out: Path


def run(plan: EvaluationPlan, listener: ProgressListener) -> Iterator[tuple[SectionResult, list[Path]]]:
    """Yields each section's result and files when it is finished, so that a later failure loses nothing."""
    for name in plan.names:
        listener.begin(name)
        result = _one(name, plan, listener)
        files = folder.write(result, plan.out)
        outcome = (
            f"skipped: {result.reason}" if result.reason else f"{result.seconds:.1f} s, {len(files)} files"
        )
        listener.end(name, outcome)
        yield result, files


def _one(name: str, plan: EvaluationPlan, listener: ProgressListener) -> SectionResult:
    started, used = time.monotonic(), time.process_time()
    about, reason, items = "", "", list[Item]()
    try:
        module = SECTIONS[name].load()
        about = module.ABOUT
        items.extend(module.run(Job(name, plan.quick, plan.seed, plan.data, listener.progress)))
    except Missing as missing:
        reason = str(missing)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] in OURS:
            raise
        reason = f"it needs {error.name}, which is not installed"
    return SectionResult(
        name=name,
        title=SECTIONS[name].title,
        about=about,
        status="skipped" if reason else "done",
        reason=reason,
        quick=plan.quick,
        seed=plan.seed,
        seconds=time.monotonic() - started,
        processor_seconds=time.process_time() - used,
        versions=folder.versions(),
        items=() if reason else items,
    )
