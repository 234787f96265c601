"""Count files and lines of each package: `python -m hushmq.documents.count_lines [ROOT …]` prints a table.

Lines of code are those with at least one token that is neither a comment nor a docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pufferfish", "broker", "agent", "calibrator", "console", "hushmq", "evaluation", "tests")
NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}


@dataclass(frozen=True, slots=True)
class Size:
    """How large a package is."""

    folders: int
    files: int
    lines: int
    code: int
    longest: int


def size(folder: Path) -> Size:
    """The size of all modules below a folder; links are not followed."""
    files = [file for file in folder.rglob("*.py") if "__pycache__" not in file.parts]
    texts = [file.read_text(encoding="utf-8") for file in files]
    lines = [len(text.splitlines()) for text in texts]
    return Size(
        folders=len({file.parent for file in files}),
        files=len(files),
        lines=sum(lines),
        code=sum(map(code_lines, texts)),
        longest=max(lines, default=0),
    )


def code_lines(text: str) -> int:
    """The lines of a module without blank lines, comments and docstrings."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            found.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(found)


def table(roots: Sequence[Path]) -> Iterable[str]:
    """A Markdown table: for each package its numbers in every root, separated by arrows."""
    yield "| package | folders | files | lines | of them code | longest file |"
    yield "|---|---|---|---|---|---|"
    for package in PACKAGES:
        sizes = [size(root / package) for root in roots]
        cells = [
            " → ".join(f"{getattr(one, name):,}" for one in sizes)
            for name in ("folders", "files", "lines", "code", "longest")
        ]
        yield f"| `{package}` | {' | '.join(cells)} |"


def main(argv: Sequence[str]) -> int:
    """Print the table of this repository, or of the copies named."""
    print("\n".join(table([Path(one).resolve() for one in argv] or [ROOT])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
