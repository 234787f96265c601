"""What a calibrator's ledger has cost so far, entry by entry, beside its budget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hushmq.broker.contract.problem import Problem
from hushmq.explain.figure import Curve, Figure, Panel

if TYPE_CHECKING:
    from hushmq.calibrator.ledger.verify_ledger import Book

HOUR_S = 3600.0


def spending_figure(books: Sequence[Book]) -> Figure:
    """For each stream the loss over time under the Θ believed now, with the budget of either audience."""
    told = [book for book in books if book.history and book.policy is not None]
    if not told:
        raise Problem("the ledger has no entries yet: there is nothing to plot")
    return Figure(
        "What the ledger has given away",
        [_panel(book) for book in told],
        [_left(book) for book in told],
        stacked=True,
    )


def _panel(book: Book) -> Panel:
    if book.policy is None:
        raise ValueError("a stream without a policy has no budget")
    times = [datetime.fromisoformat(point.at).timestamp() for point in book.history]
    hours = [(at - times[0]) / HOUR_S for at in times]
    ends = [hours[0], max(hours[-1], hours[0] + 1 / 60)]
    budget = book.policy.epsilon
    return Panel(
        f"{book.stream}: {len(book.entries)} entries since {book.history[0].at}",
        "hours",
        "loss, nats",
        [
            Curve("public", hours, [point.loss for point in book.history]),
            Curve("operator, now", ends, [book.operator] * 2),
            Curve(f"public budget {budget.public:g}", ends, [budget.public] * 2, reference=True),
            Curve(f"operator budget {budget.operator:g}", ends, [budget.operator] * 2, reference=True),
        ],
    )


def _left(book: Book) -> str:
    if book.policy is None or book.theta is None:
        return ""
    from hushmq.calibrator.models.chain_model import in_words  # noqa: PLC0415  # a ledger is read where the calibrator is installed

    budget, theta = book.policy.epsilon, book.theta
    return (
        f"{book.stream}: left {budget.public - book.public:.4f} for the public, "
        f"{budget.operator - book.operator:.4f} for operators; {in_words(theta)}, {book.policy.adversary} adversary"
    )
