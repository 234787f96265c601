"""What an attack reached: under the rule of before, and against the code as it is now."""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.evaluation.section_report import Cell


@dataclass(frozen=True, slots=True)
class AttackOutcome:
    """One attack on one case. Losses are in nats; None where nothing is published any more."""

    attack: str
    case: str
    promised: float
    """The ε that the loss is to be compared with."""
    before: float
    """The loss under the rule of before, which the attack itself models where the code has changed."""
    after: float | None
    confidence: str
    """How sure these numbers are: `exact`, or a statement of 95% confidence."""
    now: str
    """What happens now, in a few words."""

    @property
    def kept(self) -> bool:
        """Whether the promise holds now."""
        return self.after is None or self.after <= self.promised * (1 + 1e-9)

    @property
    def cells(self) -> list[Cell]:
        """A row of the table."""
        return [
            self.attack,
            self.case,
            self.promised,
            self.before,
            self.after,
            "yes" if self.kept else "NO",
            self.confidence,
            self.now,
        ]


COLUMNS = ("attack", "case", "ε", "loss before", "loss now", "kept", "confidence", "what happens now")
ERROR = 0.05
"""The error probability of every statement of confidence."""
