"""Draw which folder imports which: `python -m hushmq.documents.import_graph OUT.svg [ROOT]` (needs Graphviz's dot).

One frame shows the packages, the others each package's folders. A node is a folder with its number of modules; an arrow
leads to what it imports. Arrows that follow from others are left out. A red arrow is part of a cycle.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLOURS = {
    "hushmq": "#e8e8e8",
    "agent": "#d9ecd9",
    "broker": "#f1ead0",
    "calibrator": "#d5e4f3",
    "console": "#f3d9e4",
    "pufferfish": "#e7dcf0",
    "evaluation": "#f3e3cf",
}
"""The packages in the order in which they are drawn, each with its colour."""

Graph = Mapping[str, set[str]]


def modules(root: Path) -> dict[str, Path]:
    """Every module of the packages by its name within the repository, without `hushmq.` before another package."""
    found = {}
    for package in COLOURS:
        for file in sorted((root / package).rglob("*.py")):
            inside = file.relative_to(root)
            parts = inside.parent.parts if inside.name == "__init__.py" else inside.with_suffix("").parts
            found[".".join(parts)] = file
    return found


def imported(file: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of the repository that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [name for alias in node.names for name in (f"{node.module}.{alias.name}", node.module)]
        else:
            continue
        for name in names:
            bare = name.removeprefix("hushmq.")
            found = bare if bare.split(".")[0] in COLOURS else name
            if found in known:
                yield found


def folder_graph(root: Path) -> tuple[Counter[str], dict[str, set[str]]]:
    """The number of modules of each node, and the nodes that each one imports from.

    A node is a folder with all below it. A module at the top of a package that the package's own folders use is a node
    of its own: it lies below them, while the others at the top, the daemon and its like, lie above.
    """
    known = modules(root)
    imports = {name: set(imported(file, known)) - {name} for name, file in known.items()}
    node = {name: "/".join(file.parent.relative_to(root).parts[:2]) for name, file in known.items()}
    while below := {
        other
        for name, others in imports.items()
        for other in others
        if node[other] == other.split(".")[0] != node[name]
        and name.split(".")[0] == node[other]
        and known[other].name != "__init__.py"
    }:
        node |= {name: str(known[name].relative_to(root)) for name in below}
    sizes = Counter(node[name] for name, file in known.items() if file.name != "__init__.py")
    graph: dict[str, set[str]] = {name: set() for name in sizes}
    for name, others in imports.items():
        if node[name] in sizes:
            graph[node[name]] |= {node[other] for other in others if node[other] in sizes} - {node[name]}
    return sizes, graph


def reachable(graph: Graph, start: str) -> set[str]:
    """What a folder depends on, directly or not."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += graph[one]
    return found


def drawn(graph: Graph) -> Iterator[tuple[str, str, bool]]:
    """The arrows to draw, and whether each is part of a cycle; those that follow from others are left out."""
    below = {name: reachable(graph, name) for name in graph}
    for name, others in graph.items():
        for other in sorted(others):
            cyclic = name in below[other]
            follows = any(
                other in below[one] and one not in below[other] and name not in below[one]
                for one in others - {other}
            )
            if cyclic or not follows:
                yield name, other, cyclic


def package_of(name: str) -> str:
    """The package that a folder or a module belongs to."""
    return name.partition("/")[0]


def packages_graph(sizes: Mapping[str, int], graph: Graph) -> tuple[Counter[str], dict[str, set[str]]]:
    """The number of modules of each package, and the packages that each one imports from."""
    counts: Counter[str] = Counter()
    between: dict[str, set[str]] = {}
    for name, others in graph.items():
        counts[package_of(name)] += sizes[name]
        between.setdefault(package_of(name), set()).update(map(package_of, others - {name}))
    return counts, {name: others - {name} for name, others in between.items()}


def inside(package: str, graph: Graph) -> dict[str, set[str]]:
    """The folders of a package and what they import of the same package."""
    return {
        name: {other for other in others if package_of(other) == package}
        for name, others in graph.items()
        if package_of(name) == package
    }


def dot(title: str, colour: str, sizes: Mapping[str, int], graph: Graph) -> str:
    """One frame in Graphviz's language."""
    lines = [
        f'digraph {{ nodesep=0.2; ranksep=0.35; bgcolor="{colour}"; pad=0.15; label="{title}"; labelloc=t;',
        'fontname="Helvetica"; fontsize=18; edge [color="#555555" arrowsize=0.7];',
        'node [shape=box style="filled,rounded" fillcolor=white color="#666666" fontname="Helvetica" fontsize=14];',
    ]
    for name in graph:
        shown = name.partition("/")[2] or ("at the top" if name == title else name)
        count = (
            "" if name.endswith(".py") else f"\\n{sizes[name]} {'modules' if sizes[name] > 1 else 'module'}"
        )
        lines.append(f'"{name}" [label="{shown}{count}"];')
    for name, other, cyclic in drawn(graph):
        lines.append(f'"{name}" -> "{other}"{" [color=red penwidth=2]" if cyclic else ""};')
    return "\n".join([*lines, "}"])


def frames(sizes: Mapping[str, int], graph: Graph) -> Iterator[str]:
    """The packages together, then each package, in Graphviz's language."""
    yield dot("packages", "#f7f7f7", *packages_graph(sizes, graph))
    for package, colour in COLOURS.items():
        yield dot(package, colour, sizes, inside(package, graph))


def composed(pictures: Sequence[str], *, width: float = 1150.0, gap: float = 14.0) -> str:
    """One picture with all of these, in rows."""
    placed, x, y, height = [], 0.0, 0.0, 0.0
    for picture in pictures:
        across, down = (float(found) for found in re.findall(r'(?:width|height)="([\d.]+)pt"', picture)[:2])
        if x and x + across > width:
            x, y, height = 0.0, y + height + gap, 0.0
        body = picture[picture.index("<svg") :].replace("<svg", f'<svg x="{x:g}" y="{y:g}"', 1)
        placed.append(
            body.replace(f'"{across:g}pt"', f'"{across:g}"').replace(f'"{down:g}pt"', f'"{down:g}"')
        )
        x, height = x + across + gap, max(height, down)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {y + height:g}" width="{width:g}">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *placed, "</svg>", ""])


def main(argv: Sequence[str]) -> int:
    """Draw the repository, or another copy of it."""
    program = shutil.which("dot")
    if program is None:
        print("Graphviz's dot is needed: apt-get install graphviz", file=sys.stderr)
        return 2
    sizes, graph = folder_graph(Path(argv[1]).resolve() if len(argv) > 1 else ROOT)
    pictures = [
        subprocess.run([program, "-Tsvg"], input=text, capture_output=True, text=True, check=True).stdout
        for text in frames(sizes, graph)
    ]
    Path(argv[0]).write_text(composed(pictures), encoding="utf-8")
    cyclic = sum(found for _, _, found in drawn(graph))
    print(
        f"{argv[0]}: {len(graph)} nodes, {sum(map(len, graph.values()))} imports between them, {cyclic} in cycles"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
