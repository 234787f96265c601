"""The figure of the soak: what devices had sampled and what waited, second by second, under faults of every kind.

`python -m tests.soak.soak_figure build/soak docs/soak.svg` draws it from the records of `make soak`; those of
`make fleet-soak` have the memory of its workers, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hushmq.explain.figure import COLOURS
from hushmq.explain.picture import STYLE

FAMILIES = {"device": "device", "outbox": "device", "bad": "device", "calibrator": "calibrator"}
FAMILIES |= {"database": "database", "broker": "broker", "retained": "broker", "new": "policy"}
FAMILIES |= {"worker": "worker"}
COLOUR = dict(zip(("device", "calibrator", "database", "broker", "policy"), COLOURS[1:], strict=False))
COLOUR |= {"worker": COLOUR["calibrator"]}


def draw(records: list[Path], path: Path) -> None:
    """One panel for each record, in order of its file's name."""
    with rc_context(STYLE):
        sheet = Figure(figsize=(8.4, 2.6 * len(records) + 0.6), layout="constrained")
        for number, file in enumerate(records, 1):
            record = json.loads(file.read_text())
            axes = sheet.add_subplot(len(records), 1, number)
            seconds = [row[0] for row in record["series"]]
            axes.plot(seconds, [row[1] / 1000 for row in record["series"]], color="#444444", label="sampled")
            axes.plot(seconds, [row[2] / 1000 for row in record["series"]], color=COLOURS[0], label="waiting")
            named: set[str] = set()
            for at, kind in record["faults"]:
                family = FAMILIES[kind.split()[0].rstrip(":")]
                label = None if family in named else f"fault: {family}"
                named.add(family)
                axes.axvline(at, color=COLOUR[family], linewidth=1, alpha=0.7, label=label)
            verdict = "all promises held" if not record["wrong"] else f"{len(record['wrong'])} findings"
            faults, devices = len(record["faults"]), record["plan"]["devices"]
            title = f"{record['name']}: {devices} devices, {faults} faults, {verdict}"
            axes.set_title(title, loc="left", fontsize=10)
            axes.set_ylabel("thousand ticks")
            if "memory" in record:
                _draw_memory(axes, record["memory"])
            if number == 1:
                axes.legend(frameon=False, fontsize=7, ncols=4, loc="upper left")
        axes.set_xlabel("seconds")
        sheet.savefig(path, metadata={"Date": None})


def _draw_memory(axes: Axes, memory: list[tuple[float, list[int]]]) -> None:
    """The largest of the workers, on a second axis."""
    right = axes.twinx()
    seconds = [at for at, _ in memory]
    right.plot(seconds, [max(found, default=0) for _, found in memory], color="#999999", linestyle=":")
    right.set_ylim(bottom=0)
    right.set_ylabel("MB, largest worker (dotted)")


def main() -> None:
    folder, path = map(Path, sys.argv[1:])
    draw(sorted(folder.glob("*.json")), path)


if __name__ == "__main__":
    main()
