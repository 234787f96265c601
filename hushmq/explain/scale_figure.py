"""The Laplace scale over ε: every method on the same chains, with the lower bound for all methods."""

from __future__ import annotations

from hushmq.commands.chain_file import Chains
from hushmq.commands.progress_bar import Progress
from hushmq.commands.scale_command import METHODS
from hushmq.explain.figure import Curve, Figure, Panel

REFERENCES = {"entry": "entry (promises less)", "limit": "limit (none can do with less)"}


def scale_figure(
    given: Chains, *, low: float, high: float, points: int, progress: Progress = lambda share: None
) -> Figure:
    """One curve per method over logarithmically spaced ε; a note gives the reason where a method has no answer."""
    epsilons = [low * (high / low) ** (i / (points - 1)) for i in range(points)]
    done = 0
    curves, notes = [], []
    for name, method in METHODS.items():
        answered: dict[float, float] = {}
        refusal = None
        for epsilon in epsilons:
            try:
                answered[epsilon] = method(given, epsilon).scale
            except ValueError as error:
                refusal = str(error)
            done += 1
            progress(done / (points * len(METHODS)))
        if answered:
            x, y = list(answered), list(answered.values())
            curves.append(Curve(REFERENCES.get(name, name), x, y, reference=name in REFERENCES))
        if refusal is not None:
            notes.append(f"{name} is missing{' in parts' if answered else ''}: {refusal}")
    return Figure(
        _title(given),
        [
            Panel(
                title="Laplace scale for a query that one state changes by at most 1",
                x_label="ε, nats",
                y_label="Laplace scale",
                curves=curves,
                logarithmic="xy",
            )
        ],
        notes,
    )


def _title(given: Chains) -> str:
    sizes = sorted({chain.k for chain in given.chains})
    states = f"{sizes[0]} states" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} states"
    count = "a chain" if len(given.chains) == 1 else f"the worst of {len(given.chains)} chains"
    length = "without end" if given.length is None else f"{given.length} ticks long"
    return f"What each method needs: {count} of {states}, {length}"
