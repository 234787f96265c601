"""How accounts that are coupled to each other share an ε, where only the strength of the coupling is declared.

LCM's dependence coefficient ρ_ij says how much of what stream j reveals is about stream i: nothing at 0, all of it at
1. Stream i then loses its own loss and ρ_ij times that of every other, LCM's dependent sensitivity Σ_j ρ_ij·Δ_j/σ
(pufferfish/papers/dependent_privacy.py) in terms of losses. Conditions and proof: docs/theory-world.md, Theorem 23.
"""

from __future__ import annotations

from collections.abc import Sequence


def coupled_loss(losses: Sequence[float], couplings: Sequence[float], number: int) -> float:
    """The loss about one account, given what each loses by itself and how strongly each is coupled to the others.

    Between two accounts the stronger of their couplings counts.
    """
    mine = couplings[number]
    others = zip(losses, couplings, strict=True)
    return losses[number] + sum(
        max(mine, theirs) * loss for place, (loss, theirs) in enumerate(others) if place != number
    )


def coupled_parts(couplings: Sequence[float]) -> float:
    """Into how many parts an ε is divided, so that accounts which lose one part each lose at most ε together."""
    return max(coupled_loss([1.0] * len(couplings), couplings, number) for number in range(len(couplings)))
