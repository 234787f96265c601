"""The documentation site: every document has its place, and no page needs another host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hushmq.documents.links import broken, documents
from hushmq.documents.site import page_of, stage

ROOT = Path(__file__).parents[3]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(https?:)?//|<link\b[^>]*\bstylesheet[^>]*//"""
)


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml without calling what it names."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


def pages(nav: object) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    below = nav.values() if isinstance(nav, dict) else nav
    assert isinstance(below, list) or hasattr(below, "__iter__")
    return [page for one in below for page in pages(one)]


def test_the_navigation_holds_every_document_once() -> None:
    """Nothing stands twice, and all that is left out are single decisions, listed in their index, and tests' notes."""
    nav = pages(yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"])  # noqa: S506
    found = {str(page_of(document.relative_to(ROOT))) for document in documents(ROOT)}
    assert sorted(nav) == sorted(set(nav))
    assert set(nav) <= found
    assert {page for page in found - set(nav) if not page.startswith(("decisions/0", "tests/"))} == set()


@pytest.mark.parametrize(
    ("file", "page"),
    [
        ("README.md", "index.md"),
        ("CHANGELOG.md", "changelog.md"),
        ("deploy/README.md", "deploy.md"),
        ("docs/theory.md", "theory.md"),
        ("docs/decisions/0001-one-module.md", "decisions/0001-one-module.md"),
        ("docs/demo.svg", "demo.svg"),
        ("pufferfish/binary/stream_loss.py", "source/pufferfish/binary/stream_loss.py.md"),
    ],
)
def test_a_file_has_one_page(file: str, page: str) -> None:
    """The documents become the pages of one folder; source files have pages of their own."""
    assert page_of(Path(file)) == Path(page)


def test_links_lead_from_page_to_page(tmp_path: Path) -> None:
    """Staged pages link to each other and to pages of the source files; a folder is named without a link."""
    root, staged = tmp_path / "root", tmp_path / "staged"
    for folder in ("docs", "deploy", "agent"):
        (root / folder).mkdir(parents=True)
    (root / "agent/tick.py").write_text('"""A tick."""\n')
    (root / "README.md").write_text("# A\n\n[docs](docs/a.md#b), [all](deploy), [deploy](deploy/README.md)\n")
    (root / "docs/a.md").write_text("# A\n\n## B\n\n[code](../agent/tick.py), [other](https://example.org)\n")
    (root / "deploy/README.md").write_text("# D\n\n[home](../README.md)\n")
    stage(root, staged)
    assert "[docs](a.md#b), all, [deploy](deploy.md)" in (staged / "index.md").read_text()
    assert "[code](source/agent/tick.py.md), [other](https://example.org)" in (staged / "a.md").read_text()
    assert "[home](index.md)" in (staged / "deploy.md").read_text()
    assert '```python\n"""A tick."""\n```' in (staged / "source/agent/tick.py.md").read_text()
    assert list(broken(staged)) == []


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Zensical builds it in strict mode; no page has a script, style sheet or picture of another host."""
    stage(ROOT, tmp_path / "build/site-source")
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text())
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    made = list((tmp_path / "build/site").rglob("*.html"))
    assert len(made) > len(documents(ROOT))
    for page in made:
        assert not LOADED.search(page.read_text(encoding="utf-8")), page
