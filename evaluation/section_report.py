"""The output of a section of the evaluation: tables, figures and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hushmq.explain.figure import Figure

Cell = str | float | int | None


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `name` is the name of its file, and `main` tables are also on the results page."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    main: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError for a row that does not match the columns."""
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.name}: a row has {len(row)} cells for {len(self.columns)} columns"
                )


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure (hushmq.explain.figure), saved under `name`."""

    name: str
    figure: Figure
    main: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence or two with numbers of this run.

    The kinds `leads` and `loses`, better or worse than other methods or than intended, are also at the top of the page.
    """

    text: str
    kind: Literal["finding", "leads", "loses", "skipped"] = "finding"


Item = Table | Picture | Finding


def shown(cell: Cell) -> str:
    """The text of a cell, with four significant digits."""
    if cell is None:
        return "–"
    if isinstance(cell, bool) or not isinstance(cell, float):
        return f"{cell:,}" if isinstance(cell, int) and abs(cell) >= 10_000 else str(cell)
    return f"{cell:,.0f}" if 1e4 <= abs(cell) < 1e7 else f"{cell:.4g}"
