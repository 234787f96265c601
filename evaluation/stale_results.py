"""Says on docs/results.md itself which sections it is missing, or has from before they were changed.

A full evaluation takes half an hour, so the page may be older than the code. Then it says so, at its top, and a test
fails where it does not: `make docs` writes the note, `make results` makes the page anew, without it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from hushmq.evaluation.section_list import SECTIONS

PATH = Path("docs/results.md")
ROOT = Path(__file__).resolve().parents[1]

NOTE = re.compile(r"\n<!-- older than the code -->\n.*?\n<!-- end of older -->\n", re.DOTALL)
PLACE = "\n\n## Where we lose\n"


def document() -> str:
    """The page as it is, with the note that it needs."""
    return noted((ROOT / PATH).read_text(encoding="utf-8"), described())


def described() -> dict[str, tuple[str, str]]:
    """By section its title and what it says of itself. No section is imported: some need packages that few have."""
    found = {}
    for name, section in SECTIONS.items():
        path = ROOT / (section.module.removeprefix("hushmq.").replace(".", "/") + ".py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            match node:
                case ast.Assign(targets=[ast.Name(id="ABOUT")], value=ast.Constant(value=str(text))):
                    found[name] = section.title, " ".join(text.split())
    return found


def noted(page: str, sections: dict[str, tuple[str, str]]) -> str:
    """A page with a note on the sections it lacks or has from before, and without one where there is none."""
    page = NOTE.sub("", page)
    missing = [f"`{name}`" for name, (title, _) in sections.items() if f"\n## {title}\n" not in page]
    older = [
        f"`{name}`"
        for name, (title, about) in sections.items()
        if f"\n## {title}\n" in page and about not in page
    ]
    if not missing and not older:
        return page
    said = [
        *([f"It lacks the sections {', '.join(missing)}."] if missing else []),
        *([f"The sections {', '.join(older)} have changed since."] if older else []),
    ]
    note = (
        "<!-- older than the code -->\n"
        f"**This page is older than the code: `make results` makes it anew.** {' '.join(said)}\n"
        "<!-- end of older -->\n"
    )
    before, place, after = page.partition(PLACE)
    return f"{before}\n\n{note}{place[1:]}{after}"
