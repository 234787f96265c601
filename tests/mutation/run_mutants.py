"""Runs the tests of a module against its mutants: `python -m tests.mutation.run_mutants` (`make mutants`).

A mutant is never written to a file. A child process, forked for each, imports its syntax tree in place of the module
and runs the module's tests until one fails. A mutant that survives must be explained in survivors.toml, or be killed by
a better test. Results are added to docs/mutants.json, from which docs/mutation.md is written.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

import hypothesis.extra.numpy  # noqa: F401  # what tests import is imported once, before the children are forked
import pydantic  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import sqlalchemy  # noqa: F401

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.mutation_page import PAGE, RESULTS, explained, page

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
"""A child that takes more processor time is killed, and so is its mutant: it does not end."""
SURVIVED, KILLED, ENDLESS = "survived", "killed", "endless"

TARGETS: dict[str, Sequence[str]] = {
    "pufferfish/binary/binary_noise.py": ("tests/pufferfish/binary/test_amplification.py",),
    "pufferfish/binary/binary_spread.py": ("tests/pufferfish/test_undecided.py",),
    "pufferfish/binary/binary_theta.py": (
        "tests/pufferfish/binary/test_stream_loss.py",
        "tests/pufferfish/binary/test_binary_timeline.py",
    ),
    "pufferfish/binary/binary_timeline.py": (
        "tests/pufferfish/binary/test_binary_timeline.py",
        "tests/pufferfish/binary/test_ticks_of_an_epoch.py",
    ),
    "pufferfish/binary/changing_chain.py": (
        "tests/pufferfish/mobius/test_changing_search.py",
        "tests/pufferfish/binary/test_changing_kernels.py",
    ),
    "pufferfish/binary/directed_chain.py": ("tests/pufferfish/binary/test_binary_timeline.py",),
    "pufferfish/binary/known_instant.py": ("tests/pufferfish/binary/test_stream_loss.py",),
    "pufferfish/binary/stream_loss.py": ("tests/pufferfish/binary/test_stream_loss.py",),
    "pufferfish/bisection.py": ("tests/pufferfish/test_bisection.py",),
    "pufferfish/categorical/categorical_spread.py": (
        "tests/pufferfish/categorical/test_categorical_spread.py",
    ),
    "pufferfish/categorical/contraction.py": ("tests/pufferfish/categorical/test_contraction.py",),
    "pufferfish/categorical/emission.py": ("tests/pufferfish/categorical/test_emission.py",),
    "pufferfish/categorical/interval_quilt.py": ("tests/pufferfish/categorical/test_interval_quilt.py",),
    "pufferfish/categorical/set_excesses.py": ("tests/pufferfish/categorical/test_set_excesses.py",),
    "pufferfish/categorical/set_hull.py": ("tests/pufferfish/categorical/test_set_hull.py",),
    "pufferfish/categorical/transition_intervals.py": (
        "tests/pufferfish/categorical/test_transition_intervals.py",
    ),
    "pufferfish/coupling.py": ("tests/pufferfish/test_several_streams.py",),
    "pufferfish/deceived_loss.py": ("tests/pufferfish/test_deceived_loss.py",),
    "pufferfish/false_position.py": ("tests/pufferfish/test_false_position.py",),
    "pufferfish/inference/clopper_pearson.py": ("tests/pufferfish/inference/test_clopper_pearson.py",),
    "pufferfish/inference/half_width.py": ("tests/pufferfish/inference/test_half_width.py",),
    "pufferfish/inference/interval_evidence.py": ("tests/pufferfish/inference/test_interval_evidence.py",),
    "pufferfish/noise/discrete_laplace.py": ("tests/pufferfish/noise/test_discrete_laplace.py",),
    "pufferfish/noise/geometric_digits.py": ("tests/pufferfish/noise/test_discrete_laplace.py",),
    "pufferfish/noise/joint_noise.py": ("tests/pufferfish/noise/test_joint_noise.py",),
    "pufferfish/noise/perturber.py": ("tests/pufferfish/noise/test_perturber.py",),
    "pufferfish/quilt/laplace_scale.py": ("tests/pufferfish/quilt/test_laplace_scale.py",),
    "pufferfish/quilt/local_noise.py": ("tests/pufferfish/quilt/test_local_noise.py",),
    "pufferfish/quilt/max_influence.py": ("tests/pufferfish/quilt/test_max_influence.py",),
    "pufferfish/regimes/cone_ratio.py": ("tests/pufferfish/regimes/test_cone_ratio.py",),
    "pufferfish/regimes/product_tilt.py": ("tests/pufferfish/regimes/test_regimes.py",),
    "pufferfish/thinning/strided_chain.py": ("tests/pufferfish/thinning/test_strided_chain.py",),
    "pufferfish/timeline/tilt_runs.py": (
        "tests/pufferfish/binary/test_binary_timeline.py",
        "tests/pufferfish/mobius/test_changing_search.py",
    ),
    "pufferfish/undecided.py": ("tests/pufferfish/test_undecided.py",),
    "calibrator/ledger/audience_timelines.py": ("tests/calibrator/ledger/test_audience_timelines.py",),
    "calibrator/ledger/charge_window.py": (
        "tests/calibrator/windows/test_close_window.py",
        "tests/calibrator/ledger/test_epochs.py",
    ),
    "calibrator/ledger/debits.py": (
        "tests/calibrator/ledger/test_carried_noise.py",
        "tests/calibrator/ledger/test_public_account.py",
    ),
    "calibrator/ledger/device_bounds.py": ("tests/calibrator/ledger/test_device_bounds.py",),
    "calibrator/ledger/epochs.py": ("tests/calibrator/ledger/test_epochs.py",),
    "calibrator/ledger/high_water_mark.py": ("tests/calibrator/ledger/test_high_water_mark.py",),
    "calibrator/ledger/instant_losses.py": ("tests/calibrator/ledger/test_instant_losses.py",),
    "calibrator/ledger/public_account.py": ("tests/calibrator/ledger/test_public_account.py",),
    "calibrator/ledger/reconcile_ledger.py": ("tests/calibrator/ledger/test_reconcile_ledger.py",),
    "calibrator/ledger/window_allowance.py": (
        "tests/calibrator/ledger/test_window_spending.py",
        "tests/calibrator/ledger/test_device_bounds.py",
    ),
    "calibrator/ledger/window_spending.py": (
        "tests/calibrator/ledger/test_window_spending.py",
        "tests/calibrator/windows/test_close_window.py",
    ),
    "calibrator/models/draw_noise.py": ("tests/calibrator/models/test_draw_noise.py",),
    "calibrator/models/pair_count.py": ("tests/calibrator/models/test_pair_count.py",),
    "calibrator/models/quantiles.py": ("tests/calibrator/models/test_quantiles.py",),
    "calibrator/models/tilt_bounds.py": ("tests/calibrator/models/test_tilt_bounds.py",),
    "calibrator/models/window_parts.py": ("tests/calibrator/models/test_window_parts.py",),
}
"""The modules, and the tests that must notice a fault in each."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a mutant's tree instead of the file."""

    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.mutant.tree, self.path, "exec")
        return code


class _Finder:
    """Finds one module with a fault in it."""

    def __init__(self, name: str, mutant: Mutant) -> None:
        self._name, self._mutant = name, mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None:
            raise ImportError(name)
        spec.loader = loader = _Loader(name, spec.origin)
        loader.mutant = self._mutant
        return spec


def try_mutant(module: str, mutant: Mutant, tests: Sequence[str], patience: int = PATIENCE_S) -> str:
    """Run the tests in child processes with the mutant in the module's place: the quick ones, then the slow ones."""
    outcome = _outcome(module, mutant, tests, patience, "not slow")
    return outcome if outcome != SURVIVED else _outcome(module, mutant, tests, patience, "slow")


def _outcome(module: str, mutant: Mutant, tests: Sequence[str], patience: int, which: str) -> str:
    child = os.fork()
    if not child:
        code = 70
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (patience, patience))
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            sys.meta_path.insert(0, _Finder(module, mutant))  # type: ignore[arg-type]
            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "timeout=0"]
            code = int(pytest.main([*options, "-m", which, *tests]))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if ended in {-signal.SIGXCPU, -signal.SIGKILL}:
        return ENDLESS
    return SURVIVED if ended in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED} else KILLED


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument(
        "files", nargs="*", help="modules, such as pufferfish/undecided.py (default: all targets)"
    )
    parser.add_argument("--each", type=int, default=12, help="mutants of each module (default 12; 0: all)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (default 1)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after so long")
    args = parser.parse_args(argv)
    os.chdir(ROOT)
    os.environ["HYPOTHESIS_DATABASE_FILE"] = os.devnull
    began, bad = time.monotonic(), 0
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for file in args.files or TARGETS:
        every = list(mutants((ROOT / file).read_text(encoding="utf-8")))
        order = random.Random(f"{args.seed}/{file}")
        chosen = every if not args.each else order.sample(every, min(args.each, len(every)))
        module = "hushmq." + file.removesuffix(".py").replace("/", ".")
        outcomes = {SURVIVED: 0, KILLED: 0, ENDLESS: 0}
        survivors = []
        for mutant in sorted(chosen, key=lambda one: one.line):
            if time.monotonic() - began > args.seconds:
                break
            outcome = try_mutant(module, mutant, TARGETS[file])
            outcomes[outcome] += 1
            if outcome == SURVIVED:
                survivors.append({"line": mutant.text, "fault": mutant.fault})
                reason = explained(file, *mutant.key)
                bad += reason is None
                print(
                    f"{file}:{mutant.line}: {mutant.fault}: survived: {reason or 'NOT EXPLAINED'}", flush=True
                )
        tried = sum(outcomes.values())
        if tried:
            found[file] = {"mutants": len(every), "tried": tried, **outcomes, "survivors": survivors}
            RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
            print(f"{file}: {tried} of {len(every)} tried, {outcomes[SURVIVED]} survived", flush=True)
    PAGE.write_text(page(found), encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
