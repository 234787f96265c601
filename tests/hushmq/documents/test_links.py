"""Links between documents lead somewhere, and a broken one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.documents.links import anchors, broken, documents

ROOT = Path(__file__).parents[3]


def test_every_link_of_every_document_leads_somewhere() -> None:
    """Relative links and anchors of all Markdown documents of the repository."""
    assert {ROOT / "README.md", ROOT / "docs/theory.md", ROOT / "deploy/README.md"} <= set(documents(ROOT))
    assert list(broken(ROOT)) == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("[a](there.md)", None),
        ("[a](there.md#a-heading-of-ε)", None),
        ("[a](there.md#twice-1)", None),
        ("[a](#here)", None),
        ("[a](below)", None),
        ("![a](below/picture.svg)", None),
        ("`[a](missing.md)`", None),
        ("```\n[a](missing.md)\n```", None),
        ("[a](https://example.org/missing.md)", None),
        ("[a](missing.md)", "here.md:3: missing.md: no such file"),
        ("![a](below/missing.svg)", "here.md:3: below/missing.svg: no such file"),
        ("| a |\n|---|\n| [a](missing.md) |", "here.md:5: missing.md: no such file"),
        ("[a](#there)", "here.md:3: #there: no such heading in here.md"),
        ("[a](there.md#twice-2)", "here.md:3: there.md#twice-2: no such heading in there.md"),
    ],
)
def test_a_broken_link_is_named_with_its_place(tmp_path: Path, link: str, problem: str | None) -> None:
    """Files, folders, pictures and anchors are checked, in text and tables; code and other hosts are not."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below/picture.svg").write_text("<svg/>")
    (tmp_path / "there.md").write_text("# A `heading` of ε!\n\n## Twice\n\n## Twice\n")
    (tmp_path / "here.md").write_text(f"# Here\n\n{link}\n")
    assert list(broken(tmp_path)) == ([] if problem is None else [problem])


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    """Lower case, hyphens, no punctuation, a number for a heading that stands twice; HTML anchors as they are."""
    page = tmp_path / "page.md"
    page.write_text('# `hushmq run`, now\n\n## k states\n\n## k states\n\n<a id="Own"></a>\n')
    assert anchors(page) == {"hushmq-run-now", "k-states", "k-states-1", "Own"}
