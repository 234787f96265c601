"""Build the documentation site from the repository's Markdown: `python -m hushmq.documents.site`.

The documents are copied to one folder, with their links adjusted; a source file that a document links to becomes a
page of its own. Zensical then builds the site that mkdocs.yml describes. A broken link ends it with exit code 1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from hushmq.documents.links import Link, broken, documents, links

ROOT = Path(__file__).resolve().parents[2]
STAGED = Path("build/site-source")
SITE = Path("build/site")
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".json": "json", ".sh": "sh"}


def page_of(path: Path) -> Path:
    """The page that shows a file of the repository: docs/theory.md is theory.md, deploy/README.md is deploy.md.

    A file that is no Markdown has a page below source/, except a picture or a data file of docs/, which stays itself.
    """
    if path.parts[0] == "docs":
        return path.relative_to("docs")
    if path.suffix != ".md":
        return Path("source", f"{path}.md")
    if path.name == "README.md":
        return Path("index.md") if path == Path("README.md") else path.parent.with_suffix(".md")
    return path.with_name(path.name.lower())


def stage(root: Path, staged: Path) -> None:
    """Write the pages below `staged`, anew."""
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(root / "docs", staged)
    sources = set()
    for document in documents(root):
        found = {link.target: link for link in links(document)}
        page = staged / page_of(document.relative_to(root))
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(_with_links(document, found, page, root, staged), encoding="utf-8")
        sources |= {link.path for link in found.values() if link.path.is_file()}
    for path in sources:
        inside = path.relative_to(root)
        if inside.parts[0] != "docs" and inside.suffix != ".md":
            _write_source(path, inside, staged / page_of(inside))


def _with_links(document: Path, found: dict[str, Link], page: Path, root: Path, staged: Path) -> str:
    """The document's text with every link leading from its page to another page."""

    def replaced(match: re.Match[str]) -> str:
        link = found.get(match["target"])
        if link is None:
            return match[0]
        if link.path.is_dir():
            return match["text"]
        target = os.path.relpath(staged / page_of(link.path.relative_to(root)), page.parent)
        return f"{match['mark']}[{match['text']}]({target}{'#' if link.anchor else ''}{link.anchor})"

    text = document.read_text(encoding="utf-8")
    return re.sub(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)", replaced, text)


def _write_source(path: Path, inside: Path, page: Path) -> None:
    language = LANGUAGES.get(path.suffix, "text")
    page.parent.mkdir(parents=True, exist_ok=True)
    head = f"---\ntitle: {inside}\nsearch:\n  exclude: true\n---\n\n# {inside}\n\n"
    page.write_text(f"{head}`````{language}\n{path.read_text(encoding='utf-8')}`````\n", encoding="utf-8")


def main() -> int:
    """Check the links, then build the site into build/site; exit code 1 if either fails."""
    found = list(broken(ROOT))
    if found:
        print("\n".join(found), file=sys.stderr)
        return 1
    stage(ROOT, ROOT / STAGED)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode:
        return 1
    print(f"{SITE}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
