"""The sections of the evaluation, and what each is given.

A section is a module with `ABOUT`, a paragraph on what it shows, and `run(job)`, which yields the tables, figures and
findings of `hushmq.evaluation.section_report` as they are ready. It draws every random number from `job.rng`, so
that a seed fixes all of them, and says how far it is with `job.progress`. What it cannot do without is asked for
with `job.recording` or plainly imported: where it is missing, the section is skipped and the reason stands in the
output.
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
    """Raised when a recording that a section needs is not there."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a section: quick or in full, from which seed, on which recordings."""

    section: str
    quick: bool
    seed: int
    data: Path
    progress: Callable[[float, str], None]
    """How much is done, from 0 to 1, and what comes now."""

    def rng(self, *purpose: str | float | int) -> np.random.Generator:
        """Random numbers for one purpose: the same for the same seed, whatever else runs."""
        words = "/".join(map(str, (self.section, *purpose)))
        return np.random.default_rng([self.seed, zlib.crc32(words.encode())])

    def recording(self, name: str) -> Path:
        """The file of a recording."""
        path = self.data / name
        if not path.is_file():
            raise Missing(f"the recording {name} is not in {self.data}; say with --data where it is")
        return path


class Module(Protocol):
    """What a section's module offers."""

    ABOUT: str
    run: Callable[[Job], Iterator[Item]]


@dataclass(frozen=True, slots=True)
class Section:
    """Where a section lives, and its title."""

    module: str
    title: str

    def load(self) -> Module:
        """Import it, with whatever it needs."""
        return cast("Module", import_module(self.module))


SECTIONS = {
    "cgssy": Section("hushmq.evaluation.papers.cgssy_noise", "Which noise keeps an ε, after CGSSY"),
    "attack": Section(
        "hushmq.evaluation.papers.cgssy_correlation", "What knowing the correlation adds to an attack"
    ),
    "reconstruct": Section(
        "hushmq.evaluation.papers.cgssy_reconstruction", "How much of a sanitized stream can be reconstructed"
    ),
    "informed": Section(
        "hushmq.evaluation.sections.informed_attack", "Attackers who know some states: CGSSY's noise and ours"
    ),
    "synthetic": Section(
        "hushmq.evaluation.papers.swc_synthetic", "Markov quilts on synthetic binary chains"
    ),
    "activity": Section("hushmq.evaluation.papers.swc_activity", "Markov quilts on what thirty people do"),
    "power": Section("hushmq.evaluation.papers.swc_power", "Markov quilts on a household's power"),
    "runtime": Section("hushmq.evaluation.papers.swc_runtime", "How long the methods take"),
    "wsc": Section("hushmq.evaluation.papers.wsc_five_states", "Chains known only by how fast they forget"),
    "limit": Section(
        "hushmq.evaluation.sections.limits", "How far every method is from the limit, on real chains"
    ),
    "composition": Section("hushmq.evaluation.papers.sc_composition", "What many releases cost together"),
    "utility": Section("hushmq.evaluation.sections.utility", "What a reader of the histograms gets"),
    "misfit": Section("hushmq.evaluation.sections.recorded_misfit", "Real data is no first-order chain"),
    "audit": Section("hushmq.evaluation.sections.audited", "What an audit sees"),
    "peers": Section(
        "hushmq.evaluation.sections.peers", "Other packages: how fast, and what their ε is worth on a stream"
    ),
}
"""By name, in the order in which they run and stand on the page."""
