"""The loss after each entry of a calibrator's ledger, beside the budget."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hushmq.broker.contract.problem import Problem
from hushmq.explain.figure import Curve, Figure, Panel

if TYPE_CHECKING:
    from hushmq.calibrator.ledger.ledger_report import StreamLedger

HOUR_S = 3600.0


def spending_figure(ledgers: Sequence[StreamLedger]) -> Figure:
    """A panel per stream: the loss over time under the learned Θ, with the budgets of both audiences."""
    shown = [ledger for ledger in ledgers if ledger.history and ledger.policy is not None]
    if not shown:
        raise Problem("the ledger has no entries yet: there is nothing to plot")
    return Figure(
        "What the ledger has given away",
        [_panel(ledger) for ledger in shown],
        [_left(ledger) for ledger in shown],
        stacked=True,
    )


def _panel(ledger: StreamLedger) -> Panel:
    if ledger.policy is None:
        raise ValueError("a stream without a policy has no budget")
    times = [datetime.fromisoformat(point.at).timestamp() for point in ledger.history]
    hours = [(at - times[0]) / HOUR_S for at in times]
    ends = [hours[0], max(hours[-1], hours[0] + 1 / 60)]
    budget = ledger.policy.epsilon
    return Panel(
        f"{ledger.stream}: {len(ledger.entries)} entries since {ledger.history[0].at}",
        "hours",
        "loss, nats",
        [
            Curve("public", hours, [point.loss for point in ledger.history]),
            Curve("operator, now", ends, [ledger.operator] * 2),
            Curve(f"public budget {budget.public:g}", ends, [budget.public] * 2, reference=True),
            Curve(f"operator budget {budget.operator:g}", ends, [budget.operator] * 2, reference=True),
        ],
    )


def _left(ledger: StreamLedger) -> str:
    if ledger.policy is None or ledger.theta is None:
        return ""
    budget, theta = ledger.policy.epsilon, ledger.theta
    return (
        f"{ledger.stream}: left {budget.public - ledger.public:.4f} for the public, "
        f"{budget.operator - ledger.operator:.4f} for operators; {theta.in_words()}, "
        f"{ledger.policy.adversary} adversary"
    )
