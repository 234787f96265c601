"""The links between the repository's Markdown documents, read as GitHub reads them.

A relative link must lead to a file or folder of the repository, and its anchor to a heading of that document.
Links to other places are not followed.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

SKIPPED = {"build", "dist", "results", "node_modules"}
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
ANCHOR = re.compile(r"""\b(?:id|name)=["']([^"']+)["']""")


@dataclass(frozen=True)
class Link:
    """A relative link: where it stands, and where it leads."""

    document: Path
    line: int
    target: str

    @property
    def path(self) -> Path:
        """The file or folder it leads to; the document itself for a bare anchor."""
        name = unquote(self.target.partition("#")[0])
        return Path(os.path.normpath(self.document.parent / name)) if name else self.document

    @property
    def anchor(self) -> str:
        """The heading it leads to, or an empty text."""
        return unquote(self.target.partition("#")[2])


def documents(root: Path) -> list[Path]:
    """Every Markdown document of the repository, in the order of their paths."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        found += [Path(folder, name) for name in files if name.endswith(".md")]
    return sorted(found)


def links(document: Path) -> Iterator[Link]:
    """The relative links and pictures of a document."""
    for block in _tokens(document):
        line = block.map[0] + 1 if block.map else 0
        for token in block.children or ():
            target = str(token.attrGet("href") or token.attrGet("src") or "")
            if target and not ELSEWHERE.match(target):
                yield Link(document, line, target)


@cache
def anchors(document: Path) -> frozenset[str]:
    """The anchors of a document: its headings' as GitHub names them, and those written as HTML."""
    found: set[str] = set()
    tokens = _tokens(document)
    for before, token in itertools.pairwise(tokens):
        if before.type == "heading_open":
            name, count = slug(token), 0
            while (one := f"{name}-{count}" if count else name) in found:
                count += 1
            found.add(one)
        found.update(ANCHOR.findall(token.content) if token.type in {"html_block", "inline"} else ())
    return frozenset(found)


def slug(heading: Token) -> str:
    """The anchor of a heading: lower case, hyphens for spaces, no other punctuation."""
    text = "".join(one.content for one in heading.children or () if one.type in {"text", "code_inline"})
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def broken(root: Path) -> Iterator[str]:
    """One line for each link that leads nowhere: where it stands and what is missing."""
    for document in documents(root):
        for link in links(document):
            place = f"{document.relative_to(root)}:{link.line}: {link.target}"
            if not link.path.exists():
                yield f"{place}: no such file"
            elif link.anchor and link.path.suffix == ".md" and link.anchor not in anchors(link.path):
                yield f"{place}: no such heading in {link.path.relative_to(root)}"


def _tokens(document: Path) -> list[Token]:
    text = document.read_text(encoding="utf-8")
    return MarkdownIt("commonmark").enable("table").parse(text)
