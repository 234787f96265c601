"""The results folder: Markdown, CSV and PNG files of each section, and a JSON file with all of its contents.

Every file states the seed, the versions and the duration of its run.
"""

from __future__ import annotations

import csv
import io
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from matplotlib import rc_context
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from hushmq.evaluation.section_report import Finding, Item, Picture, Table, shown
from hushmq.explain.picture import STYLE, sheet

COLOURS = 128
"""The size of the colour palette: sufficient for antialiased lines, and half the file size."""

PACKAGES = ("hushmq", "numpy", "scipy", "opendp", "matplotlib", "torch")


@dataclass(frozen=True, slots=True)
class SectionResult:
    """The result of a section: its parameters, its duration and what it yielded."""

    name: str
    title: str
    about: str
    status: Literal["done", "skipped"]
    reason: str
    quick: bool
    seed: int
    seconds: float
    processor_seconds: float
    versions: dict[str, str]
    items: Sequence[Item] = ()

    def origin(self) -> str:
        """The line on seed, versions and duration in every file."""
        used = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{'quick' if self.quick else 'full'} run, seed {self.seed}, {self.seconds:.1f} s; {used}"


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that the numbers depend on."""
    found = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def write(result: SectionResult, folder: Path) -> list[Path]:
    """Writes a section's files, replacing those of an earlier run, and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (*folder.glob(f"{result.name}.*"), *folder.glob(f"{result.name}-*")):
        stale.unlink()
    paths = [folder / f"{result.name}.md"]
    paths[0].write_text(markdown(result), encoding="utf-8")
    for item in result.items:
        if isinstance(item, Table):
            paths.append(folder / f"{result.name}-{item.name}.csv")
            _write_csv(item, paths[-1], result.origin())
        elif isinstance(item, Picture):
            paths.append(folder / f"{result.name}-{item.name}.png")
            _write_png(item, paths[-1], result.origin())
    paths.append(folder / f"{result.name}.json")
    paths[-1].write_text(json.dumps(as_json(result), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return paths


def markdown(result: SectionResult) -> str:
    """The Markdown document of a section."""
    parts = [f"# {result.title}", result.about, f"_{result.origin()}_"]
    if result.status == "skipped":
        parts.append(f"**Skipped:** {result.reason}.")
    findings = [item for item in result.items if isinstance(item, Finding)]
    if findings:
        parts.append(bullets(findings))
    for item in result.items:
        if isinstance(item, Table):
            parts.append(markdown_table(item))
        elif isinstance(item, Picture):
            parts.append(f"![{item.figure.title}]({result.name}-{item.name}.png)")
    return "\n\n".join(parts) + "\n"


def bullets(findings: Sequence[Finding]) -> str:
    """Findings as a Markdown list; losses and skipped parts are marked."""
    marks = {"loses": "**We lose:** ", "skipped": "**Skipped:** "}
    return "\n".join(f"- {marks.get(finding.kind, '')}{finding.text}" for finding in findings)


def markdown_table(table: Table) -> str:
    """A Markdown table with its title, numbers right-aligned."""
    numeric = [
        any(isinstance(row[column], (int, float)) for row in table.rows)
        for column in range(len(table.columns))
    ]
    lines = [
        _line(table.columns),
        "|" + "|".join("---:" if right else "---" for right in numeric) + "|",
        *(_line([shown(cell) for cell in row]) for row in table.rows),
    ]
    return "\n\n".join([f"**{table.title}**", "\n".join(lines), *([table.note] if table.note else [])])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _write_csv(table: Table, path: Path, origin: str) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {table.title}; {origin}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(table.columns)
        writer.writerows(["" if cell is None else cell for cell in row] for row in table.rows)


def _write_png(picture: Picture, path: Path, origin: str) -> None:
    drawn = io.BytesIO()
    with rc_context(STYLE):
        sheet(picture.figure).savefig(drawn, format="png", dpi=110)
    info = PngInfo()
    info.add_text("Title", picture.figure.title)
    info.add_text("Description", origin)
    image = (
        Image.open(drawn)
        .convert("RGB")
        .quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    )
    image.save(path, optimize=True, pnginfo=info)


def as_json(result: SectionResult) -> dict[str, Any]:
    """The section as JSON; `published_results` keeps of it what the page shows."""
    return {**asdict(result), "items": [{"is": type(item).__name__, **asdict(item)} for item in result.items]}
