"""Write the reference documents from the code they describe: `python -m hushmq.documents.write_documents [--check]`.

A module that can write one has its `PATH`, relative to the repository, and `document()`, its text; one that writes
passages of several documents has `documents()`, the text of each by its path.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

WRITERS = (
    "hushmq.documents.manual",
    "hushmq.documents.api_page",
    "hushmq.documents.log_events",
    "hushmq.documents.capacity_page",
    "hushmq.agent.agent_reference",
    "hushmq.calibrator.calibrator_reference",
    "hushmq.calibrator.fleet_reference",
    "hushmq.console.console_reference",
    "hushmq.broker.reference.site_reference",
    "hushmq.broker.reference.policy_reference",
    "hushmq.broker.reference.asyncapi",
    "hushmq.broker.reference.topics_page",
    "hushmq.evaluation.results_page",
    "hushmq.evaluation.benchmarks.benchmarks_page",
    "hushmq.evaluation.benchmarks.measured_blocks",
)

ROOT = Path(__file__).resolve().parents[2]


def stale(writers: Iterable[str]) -> dict[Path, str]:
    """The documents that differ from what the code says now, with their new text."""
    found = {}
    for name in writers:
        writer = import_module(name)
        texts = writer.documents() if hasattr(writer, "documents") else {writer.PATH: writer.document()}
        for place, text in texts.items():
            path = ROOT / place
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                found[path] = text
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite what is stale, or with --check only name it; exit code 1 if anything was found then."""
    parser = argparse.ArgumentParser(prog="python -m hushmq.documents.write_documents", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit code 1 if a document is stale"
    )
    args = parser.parse_args(argv)
    found = stale(WRITERS)
    for path, text in found.items():
        print(f"{path.relative_to(ROOT)}: {'stale: run make docs' if args.check else 'written'}")
        if not args.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if args.check and found else 0


if __name__ == "__main__":
    sys.exit(main())
