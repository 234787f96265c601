"""The sections of the evaluation, and the job that each receives.

A section is a module with `ABOUT`, a paragraph on what it shows, and `run(job)`, which yields the tables, figures and
findings of `hushmq.evaluation.section_report` as they are ready. It draws every random number from `job.rng`, so that
the seed determines the results, and reports its progress with `job.progress`. It requests recordings with
`job.recording` and imports packages directly: if one is missing, the section is skipped, with the reason in the output.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from hushmq.evaluation.section_report import Item


class Missing(Exception):
    """Raised when a recording that a section needs is missing."""


@dataclass(frozen=True, slots=True)
class Job:
    """The parameters of one run of a section: quick or full, the seed, the recordings."""

    section: str
    quick: bool
    seed: int
    data: Path
    progress: Callable[[float, str], None]
    """Receives the share done, from 0 to 1, and the current step."""

    def rng(self, *purpose: str | float | int) -> np.random.Generator:
        """A generator for one purpose, determined by the seed and independent of other purposes."""
        words = "/".join(map(str, (self.section, *purpose)))
        return np.random.default_rng([self.seed, zlib.crc32(words.encode())])

    def recording(self, name: str) -> Path:
        """The path of a recording's file; Missing if it is not there."""
        path = self.data / name
        if not path.is_file():
            raise Missing(
                f"the recording {name} is not in {self.data}; say with --data where it is, or --fetch it"
            )
        return path


class Module(Protocol):
    """The interface of a section's module."""

    ABOUT: str
    run: Callable[[Job], Iterator[Item]]


@dataclass(frozen=True, slots=True)
class EvaluationSection:
    """The module of a section, and its title."""

    module: str
    title: str

    def load(self) -> Module:
        """Imports the module and its dependencies."""
        return cast("Module", import_module(self.module))


SECTIONS = {
    "cgssy": EvaluationSection("hushmq.evaluation.papers.cgssy_noise", "Which noise keeps an ε, after CGSSY"),
    "attack": EvaluationSection(
        "hushmq.evaluation.papers.cgssy_correlation", "What knowing the correlation adds to an attack"
    ),
    "reconstruct": EvaluationSection(
        "hushmq.evaluation.papers.cgssy_reconstruction", "How much of a sanitized stream can be reconstructed"
    ),
    "informed": EvaluationSection(
        "hushmq.evaluation.sections.informed_attack", "Attackers who know some states: CGSSY's noise and ours"
    ),
    "synthetic": EvaluationSection(
        "hushmq.evaluation.papers.swc_synthetic", "Markov quilts on synthetic binary chains"
    ),
    "activity": EvaluationSection(
        "hushmq.evaluation.papers.swc_activity", "Markov quilts on what thirty people do"
    ),
    "power": EvaluationSection("hushmq.evaluation.papers.swc_power", "Markov quilts on a household's power"),
    "runtime": EvaluationSection("hushmq.evaluation.papers.swc_runtime", "How long the methods take"),
    "wsc": EvaluationSection(
        "hushmq.evaluation.papers.wsc_five_states", "Chains known only by how fast they forget"
    ),
    "limit": EvaluationSection(
        "hushmq.evaluation.sections.limits", "How far every method is from the limit, on real chains"
    ),
    "recent": EvaluationSection(
        "hushmq.evaluation.sections.recent_methods", "Methods of the last years, at the same true loss"
    ),
    "relaxed": EvaluationSection(
        "hushmq.evaluation.sections.relaxed_accounting", "What a guarantee with a δ would save"
    ),
    "composition": EvaluationSection(
        "hushmq.evaluation.papers.sc_composition", "What many releases cost together"
    ),
    "utility": EvaluationSection(
        "hushmq.evaluation.sections.utility", "What a reader of the histograms gets"
    ),
    "misfit": EvaluationSection(
        "hushmq.evaluation.sections.recorded_misfit", "Real data is no first-order chain"
    ),
    "strong": EvaluationSection(
        "hushmq.evaluation.sections.strong_attackers", "Strong attackers on what real data is"
    ),
    "attacks": EvaluationSection(
        "hushmq.evaluation.attacks.attack_suite", "Attacks from outside of the model, before and now"
    ),
    "audit": EvaluationSection("hushmq.evaluation.sections.audited", "What an audit sees"),
    "peers": EvaluationSection(
        "hushmq.evaluation.sections.peers", "Other packages: how fast, and what their ε is worth on a stream"
    ),
}
"""By name, in the order in which they run and stand on the page."""
