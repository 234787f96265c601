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

from tests.mutation.mutants import Mutant, mutants
from tests.mutation.mutation_page import PAGE, RESULTS, explained, page

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120
"""A child that takes more processor time is killed, and so is its mutant: it does not end."""
SURVIVED, KILLED, ENDLESS = "survived", "killed", "endless"

TARGETS: dict[str, Sequence[str]] = {
    "pufferfish/binary/binary_noise.py": ("tests/pufferfish/binary/test_amplification.py",),
    "pufferfish/binary/stream_loss.py": ("tests/pufferfish/binary/test_stream_loss.py",),
    "pufferfish/binary/binary_timeline.py": (
        "tests/pufferfish/binary/test_binary_timeline.py",
        "tests/pufferfish/binary/test_ticks_of_an_epoch.py",
    ),
    "pufferfish/binary/known_instant.py": ("tests/pufferfish/binary/test_stream_loss.py",),
    "pufferfish/noise/discrete_laplace.py": ("tests/pufferfish/noise/test_discrete_laplace.py",),
    "pufferfish/noise/geometric_digits.py": ("tests/pufferfish/noise/test_discrete_laplace.py",),
    "pufferfish/noise/joint_noise.py": ("tests/pufferfish/noise/test_joint_noise.py",),
    "pufferfish/noise/perturber.py": ("tests/pufferfish/noise/test_perturber.py",),
    "pufferfish/undecided.py": ("tests/pufferfish/test_undecided.py",),
    "calibrator/ledger/charge_window.py": (
        "tests/calibrator/windows/test_close_window.py",
        "tests/calibrator/ledger/test_epochs.py",
    ),
    "calibrator/ledger/debits.py": (
        "tests/calibrator/ledger/test_carried_noise.py",
        "tests/calibrator/ledger/test_public_account.py",
    ),
    "calibrator/ledger/high_water_mark.py": ("tests/calibrator/ledger/test_high_water_mark.py",),
    "calibrator/ledger/public_account.py": ("tests/calibrator/ledger/test_public_account.py",),
    "calibrator/ledger/window_allowance.py": ("tests/calibrator/ledger/test_window_spending.py",),
    "calibrator/ledger/window_spending.py": (
        "tests/calibrator/ledger/test_window_spending.py",
        "tests/calibrator/windows/test_close_window.py",
    ),
    "calibrator/models/pair_count.py": ("tests/calibrator/models/test_pair_count.py",),
    "calibrator/models/draw_noise.py": ("tests/calibrator/models/test_draw_noise.py",),
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
    """Run the tests in a child process with the mutant in the module's place."""
    child = os.fork()
    if not child:
        code = 70
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (patience, patience))
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            sys.meta_path.insert(0, _Finder(module, mutant))  # type: ignore[arg-type]
            import pytest

            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if ended in {-signal.SIGXCPU, -signal.SIGKILL}:
        return ENDLESS
    return SURVIVED if ended == 0 else KILLED


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
