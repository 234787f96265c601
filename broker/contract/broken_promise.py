"""How it is said that a promise did not hold: where, to whom, and what may have been lost at most."""

from __future__ import annotations


def broken_promise(*, audience: str, first: int, last: int, budget: float, loss: float) -> str | None:
    """The sentence about these ticks; None where the loss is within the budget."""
    if loss <= budget:
        return None
    return (
        f"ticks {first} to {last}: the promise of {budget:g} to the {audience} did not hold, "
        f"the loss may be up to {loss:.4f}"
    )
